// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csccm/csccm/installer/cloud/rules"
)

// BeforeAnnotation keeps on a Service what a takeover changes of it, as it was before. It is set together with the annotations
// that keep the current state and before any rule is renamed, so that an undo needs nothing else; what a first run says stays.
const BeforeAnnotation = "csccm.io/before-takeover"

// before is the value of the annotation.
type before struct {
	Annotations map[string]change `json:"annotations,omitempty"`
	Rules       map[string]string `json:"rules,omitempty"` // names, by id
}

// change is an annotation that csccm set.
type change struct {
	Was *string `json:"was"` // null when it was not set
	Set string  `json:"set"`
}

// beforeOf reads the annotation; nil where there is none, or none that can be read.
func beforeOf(svc *corev1.Service) *before {
	var b before
	if json.Unmarshal([]byte(svc.Annotations[BeforeAnnotation]), &b) != nil {
		return nil
	}
	return &b
}

// record keeps on each Service what was, and sets the annotations that keep the current state, in one patch. The old
// controllers do not heed these values, so nothing happens before the new one leads.
func (t *Taker) record(ctx context.Context) error {
	if err := t.Check(); err != nil {
		return err
	}
	t.Progress.Step("Record of what was")
	n := 0
	for i := range t.Plan.Services {
		s := &t.Plan.Services[i]
		pins, names := map[string]string{}, map[string]string{}
		for j := range s.Differences {
			if d := &s.Differences[j]; d.Consent && d.Pin != nil && Named(t.Pin, s.Service) {
				pins[d.Pin.Annotation] = d.Pin.Value
			}
		}
		for j := range t.Plan.Rules.Steps {
			if r := &t.Plan.Rules.Steps[j]; r.Service == s.Service && r.Action == rules.ActionRename {
				names[r.RuleID] = r.From
			}
		}
		if len(pins)+len(names) == 0 {
			continue
		}
		if err := t.keep(ctx, s.Service, pins, names); err != nil {
			return err
		}
		n++
	}
	t.Progress.Done("in annotations of %s", english.Plural(n, "Service", ""))
	return nil
}

// keep annotates one Service with what was, and with pins.
func (t *Taker) keep(ctx context.Context, service string, pins, names map[string]string) error {
	namespace, name, _ := strings.Cut(service, "/")
	svc, err := t.Kube.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading Service %s: %w", service, err)
	}
	was := beforeOf(svc)
	if was == nil {
		was = &before{}
	}
	maps.DeleteFunc(names, func(id, _ string) bool { return was.Rules[id] != "" })
	if was.Rules == nil {
		was.Rules = map[string]string{}
	}
	maps.Copy(was.Rules, names)
	set := map[string]*string{}
	for _, a := range slices.Sorted(maps.Keys(pins)) {
		value := pins[a]
		c := change{Set: value}
		if v, there := svc.Annotations[a]; there {
			c.Was = &v
		}
		if old, known := was.Annotations[a]; known {
			c.Was = old.Was
		}
		if was.Annotations == nil {
			was.Annotations = map[string]change{}
		}
		was.Annotations[a], set[a] = c, &value
		t.Progress.Info("%s: %s=%q", service, a, value)
	}
	body, err := json.Marshal(was)
	if err != nil {
		return err
	}
	text := string(body)
	set[BeforeAnnotation] = &text
	return t.annotate(ctx, service, set)
}

// annotate gives annotations of a Service their values; nil removes one.
func (t *Taker) annotate(ctx context.Context, service string, values map[string]*string) error {
	namespace, name, _ := strings.Cut(service, "/")
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": values}})
	if err == nil {
		_, err = t.Kube.CoreV1().Services(namespace).Patch(ctx, name, types.MergePatchType, patch, byCSCCM)
	}
	if err != nil {
		return fmt.Errorf("annotating Service %s: %w", service, err)
	}
	return nil
}
