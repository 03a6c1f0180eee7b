// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/csccm/csccm/pkg/plural"
)

// ObjectDrift is one object of the release and how it differs from the cluster.
type ObjectDrift struct {
	Object unstructured.Unstructured
	// absent: it is not in the cluster. refused: the API server would not take it, and why.
	Absent  bool
	Refused string
	Fields  []string // "path: has X, the release says Y"
}

// ReasonOf returns why the API server refused an object; "" if it did not judge the object.
func ReasonOf(err error) string {
	if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) {
		return OneLine(err.Error())
	}
	return ""
}

// Drift decides HELM-003.
func Drift(revision int, drifts []ObjectDrift, namespace string) Finding {
	var out []Object
	for i := range drifts {
		d := &drifts[i]
		switch {
		case d.Absent:
			out = append(out, ObjectOf(&d.Object, namespace, "is in the release and not in the cluster"))
		case d.Refused != "":
			out = append(out, ObjectOf(&d.Object, namespace, "the API server would not take it as the release has it: %s", d.Refused))
		case len(d.Fields) > 0:
			out = append(out, ObjectOf(&d.Object, namespace, "%s", strings.Join(d.Fields, "; ")))
		}
	}
	if len(out) > 0 {
		return Problemf("%d of %s differ from revision %d", len(out), plural.Count(len(drifts), "object"), revision).About(out...)
	}
	return Passf("%s as in revision %d", plural.Count(len(drifts), "object"), revision)
}

// maxFields is how many differing fields of one object are named.
const maxFields = 5

// Differences names the fields that applying the release would change. What the API server keeps
// for itself is left out, and so is what a Secret holds.
func Differences(live, would *unstructured.Unstructured) []string {
	was, will := withoutServerFields(live), withoutServerFields(would)
	var out []string
	diff("", was, will, live.GetKind() == "Secret", &out)
	if len(out) > maxFields {
		out = append(out[:maxFields], fmt.Sprintf("and %s more", plural.Count(len(out)-maxFields, "field")))
	}
	return out
}

// withoutServerFields is the object without what changes by itself.
func withoutServerFields(o *unstructured.Unstructured) map[string]any {
	c := o.DeepCopy().Object
	delete(c, "status")
	if m, found := c["metadata"].(map[string]any); found {
		for _, key := range []string{"managedFields", "resourceVersion", "generation", "creationTimestamp", "uid"} {
			delete(m, key)
		}
	}
	return c
}

func diff(path string, was, will any, hide bool, out *[]string) {
	if reflect.DeepEqual(was, will) {
		return
	}
	a, aMap := was.(map[string]any)
	b, bMap := will.(map[string]any)
	if aMap && bMap {
		keys := slices.Sorted(maps.Keys(a))
		for k := range b {
			if _, both := a[k]; !both {
				keys = append(keys, k)
			}
		}
		slices.Sort(keys)
		for _, k := range keys {
			diff(strings.TrimPrefix(path+"."+k, "."), a[k], b[k], hide, out)
		}
		return
	}
	la, aList := was.([]any)
	lb, bList := will.([]any)
	if aList && bList && len(la) == len(lb) {
		for i := range la {
			diff(fmt.Sprintf("%s[%s]", path, elementName(la[i], i)), la[i], lb[i], hide, out)
		}
		return
	}
	if hide {
		*out = append(*out, path+" differs")
		return
	}
	*out = append(*out, fmt.Sprintf("%s is %s, the release says %s", path, brief(was), brief(will)))
}

// elementName is an element's name where it has one, else its place.
func elementName(v any, i int) string {
	if m, found := v.(map[string]any); found {
		if name, found := m["name"].(string); found {
			return name
		}
	}
	return fmt.Sprint(i)
}

// brief shows a value in a few words.
func brief(v any) string {
	if v == nil {
		return "not set"
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return "?"
	}
	const enough = 60
	if s := string(raw); len(s) <= enough {
		return s
	}
	return string([]rune(string(raw))[:enough]) + "..."
}
