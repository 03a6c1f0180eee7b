// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/csccm/csccm/pkg/plural"
)

// objectsAtOnce bounds the calls about the objects of a manifest.
const objectsAtOnce = 8

// driftOf is one object of the release and how it differs from the cluster.
type driftOf struct {
	object unstructured.Unstructured
	// absent: it is not in the cluster. refused: the API server would not take it, and why.
	absent  bool
	refused string
	fields  []string // "path: has X, the release says Y"
}

func runDrift(ctx context.Context, e *Env) Finding {
	return judge(ctx, e.facts.releases, func(records []releaseRecord) Finding {
		i := slices.IndexFunc(records, func(r releaseRecord) bool { return r.status == "deployed" })
		if i < 0 {
			return skipf("no revision of release %s is deployed", e.Release)
		}
		record := records[i]
		content, err := record.content()
		if err != nil {
			return unread(&unreadError{"revision " + fmt.Sprint(record.revision), err})
		}
		wanted, err := parseManifest(content.Manifest)
		if err != nil {
			return unread(&unreadError{"the release's manifest", err})
		}
		client, err := e.objects()
		if err != nil {
			return skipf("%v", err)
		}
		drifts, err := compareAll(ctx, client, wanted)
		if err != nil {
			return unread(err)
		}
		return decideDrift(record.revision, drifts, e.Namespace)
	})
}

func compareAll(ctx context.Context, client *objects, wanted []unstructured.Unstructured) ([]driftOf, error) {
	out := make([]driftOf, len(wanted))
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(objectsAtOnce)
	for i := range wanted {
		group.Go(func() error {
			out[i].object = wanted[i]
			live, err := client.get(gctx, &wanted[i])
			if err != nil {
				return err
			}
			if live == nil {
				out[i].absent = true
				return nil
			}
			would, err := client.dryRun(gctx, &wanted[i])
			switch {
			case apierrors.IsForbidden(err) && !strings.Contains(err.Error(), "admission"):
				return &unreadError{"the difference of " + wanted[i].GetKind() + " " + wanted[i].GetName(), client.explain(err)}
			case err != nil && reasonOf(err) != "":
				out[i].refused = reasonOf(err)
			case err != nil:
				return &unreadError{"the difference of " + wanted[i].GetKind() + " " + wanted[i].GetName(), client.explain(err)}
			default:
				out[i].fields = differences(live, would)
			}
			return nil
		})
	}
	return out, group.Wait()
}

// reasonOf is the API server's word for refusing an object; "" when it did not judge it.
func reasonOf(err error) string {
	if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) {
		return oneLine(err.Error())
	}
	return ""
}

func decideDrift(revision int, drifts []driftOf, namespace string) Finding {
	var out []Object
	for i := range drifts {
		d := &drifts[i]
		switch {
		case d.absent:
			out = append(out, objectOf(&d.object, namespace, "is in the release and not in the cluster"))
		case d.refused != "":
			out = append(out, objectOf(&d.object, namespace, "the API server would not take it as the release has it: %s", d.refused))
		case len(d.fields) > 0:
			out = append(out, objectOf(&d.object, namespace, "%s", strings.Join(d.fields, "; ")))
		}
	}
	if len(out) > 0 {
		return problemf("%d of %s differ from revision %d", len(out), plural.Count(len(drifts), "object"), revision).About(out...)
	}
	return passf("%s as in revision %d", plural.Count(len(drifts), "object"), revision)
}

// maxFields is how many differing fields of one object are named.
const maxFields = 5

// differences names the fields that applying the release would change. What the API server keeps
// for itself is left out, and so is what a Secret holds.
func differences(live, would *unstructured.Unstructured) []string {
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
