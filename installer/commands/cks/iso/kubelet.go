// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package iso

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/csccm/csccm/pkg/node"
)

const externalFlag = "--cloud-provider=external"

// withExternal gives the kubelet's drop-in for systemd the flag. The last ExecStart is the one that counts. CKS replaces
// /etc/default/kubelet, so KUBELET_EXTRA_ARGS is no place for it.
func withExternal(dropIn string) (string, error) {
	lines := strings.Split(dropIn, "\n")
	for i := range slices.Backward(lines) {
		start, ok := strings.CutPrefix(strings.TrimSpace(lines[i]), "ExecStart=")
		switch {
		case !ok || start == "":
			continue
		case strings.HasSuffix(start, `\`):
			return "", errors.New("its ExecStart goes over several lines")
		case strings.Contains(start, "--cloud-provider"):
			return dropIn, nil
		}
		lines[i] = strings.TrimRight(lines[i], " \t\r") + " " + externalFlag
		return strings.Join(lines, "\n"), nil
	}
	return "", errors.New("it has no ExecStart")
}

// tolerating gives all Pods of a manifest the toleration of nodes that no controller has initialised, and returns the
// objects that needed it. Documents that need nothing stay as they are.
func tolerating(manifest []byte) (_ []byte, changed []string, err error) {
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(manifest)))
	var out [][]byte
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, nil, err
		}
		var o unstructured.Unstructured
		if err := yaml.Unmarshal(document, &o.Object); err != nil {
			return nil, nil, err
		}
		if o.Object != nil && addToleration(o.Object) {
			changed = append(changed, o.GetKind()+" "+o.GetName())
			if document, err = yaml.Marshal(o.Object); err != nil {
				return nil, nil, err
			}
		}
		out = append(out, append(bytes.TrimSuffix(document, []byte("\n")), '\n'))
	}
	if changed == nil {
		return manifest, nil, nil
	}
	return bytes.Join(out, []byte("---\n")), changed, nil
}

// podSpecs are where objects hold the specification of Pods.
var podSpecs = [][]string{{"spec", "template", "spec"}, {"spec", "jobTemplate", "spec", "template", "spec"}, {"spec"}}

// addToleration reports whether the object's Pods lacked the toleration.
func addToleration(o map[string]any) bool {
	for _, where := range podSpecs {
		if _, is, _ := unstructured.NestedSlice(o, append(slices.Clone(where), "containers")...); !is {
			continue
		}
		where = append(slices.Clone(where), "tolerations")
		list, _, _ := unstructured.NestedSlice(o, where...)
		if slices.ContainsFunc(list, toleratesUninitialized) {
			return false
		}
		list = append(list, map[string]any{"key": node.TaintKey, "operator": "Exists", "effect": "NoSchedule"})
		return unstructured.SetNestedSlice(o, list, where...) == nil
	}
	return false
}

func toleratesUninitialized(toleration any) bool {
	t, _ := toleration.(map[string]any)
	key, effect, operator, value := fmt.Sprint(t["key"]), fmt.Sprint(t["effect"]), fmt.Sprint(t["operator"]), fmt.Sprint(t["value"])
	if t["effect"] != nil && effect != "" && effect != "NoSchedule" {
		return false
	}
	if operator == "Exists" {
		return t["key"] == nil || key == "" || key == node.TaintKey
	}
	return key == node.TaintKey && value == "true" // as the kubelet sets it
}
