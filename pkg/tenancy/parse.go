// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package tenancy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	"github.com/csccm/csccm/pkg/annotation"
)

// Parse reads a policy as the chart writes it: JSON, in which a name that is not known is an error.
// What the text leaves out is not restricted; the defaults are in Default alone.
func Parse(text []byte) (Policy, error) {
	var p Policy
	if err := strict(text, &p); err != nil {
		return Policy{}, fmt.Errorf("tenancy: %w", err)
	}
	if err := p.validate(); err != nil {
		return Policy{}, err
	}
	return p, nil
}

func strict(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is text after the JSON object")
	}
	return nil
}

// UnmarshalJSON reads a namespace's name, "*" or a label selector.
func (n *Namespaces) UnmarshalJSON(text []byte) error {
	if trimmed := bytes.TrimSpace(text); len(trimmed) > 0 && trimmed[0] == '"' {
		var name string
		if err := json.Unmarshal(text, &name); err != nil {
			return err
		}
		if name != Everybody && len(validation.IsDNS1123Label(name)) > 0 {
			return fmt.Errorf("%q is not a namespace; allowed: a namespace's name, \"*\" or a label selector", name)
		}
		*n = Namespaces{Name: name}
		return nil
	}
	var s metav1.LabelSelector
	if err := strict(text, &s); err != nil {
		return fmt.Errorf("%s is not a namespace's name, \"*\" or a label selector: %w", text, err)
	}
	if len(s.MatchLabels) == 0 && len(s.MatchExpressions) == 0 {
		return errors.New("a label selector without matchLabels and matchExpressions would match every namespace; use \"*\" for that")
	}
	compiled, err := metav1.LabelSelectorAsSelector(&s)
	if err != nil {
		return fmt.Errorf("label selector %s: %w", text, err)
	}
	*n = Namespaces{Selector: &s, compiled: compiled}
	return nil
}

// MarshalJSON writes what UnmarshalJSON reads.
func (n Namespaces) MarshalJSON() ([]byte, error) {
	if n.Selector != nil {
		return json.Marshal(n.Selector)
	}
	return json.Marshal(n.Name)
}

// validate returns everything that is wrong with the policy, joined.
func (p Policy) validate() error {
	var errs []error
	names := AnnotationNames()
	for _, name := range slices.Sorted(maps.Keys(p.Annotations)) {
		if !slices.Contains(names, name) {
			errs = append(errs, fmt.Errorf("tenancy.annotations: there is no annotation %q; allowed: %s", name, strings.Join(names, ", ")))
		}
	}
	for _, l := range []struct {
		name  string
		value int
	}{
		{"maxAddressesPerNamespace", p.Limits.MaxAddressesPerNamespace},
		{"maxPortsPerService", p.Limits.MaxPortsPerService},
		{"keepIP.maxPerNamespace", ptr.Deref(p.Limits.KeepIP.MaxPerNamespace, 0)},
	} {
		if l.value < 0 {
			errs = append(errs, fmt.Errorf("tenancy.limits.%s: %d is negative", l.name, l.value))
		}
	}
	return errors.Join(errs...)
}

// AnnotationNames returns the names that rules for annotations may have, sorted: the annotations that users set,
// without their prefix.
func AnnotationNames() []string {
	var out []string
	for _, d := range annotation.Table() {
		if name, ok := strings.CutPrefix(d.Name, annotation.Prefix); ok && d.Writer == annotation.ByUser {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}
