// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/csccm/csccm/installer/check/decide"
)

// objectsAtOnce bounds the calls about the objects of a manifest.
const objectsAtOnce = 8

func runDrift(ctx context.Context, e *Env) Finding {
	return judge(ctx, e.facts.releases, func(records []decide.ReleaseRecord) Finding {
		i := slices.IndexFunc(records, func(r decide.ReleaseRecord) bool { return r.Status == "deployed" })
		if i < 0 {
			return decide.Skipf("no revision of release %s is deployed", e.Release)
		}
		record := records[i]
		content, err := record.Content()
		if err != nil {
			return decide.Unread(decide.Unreadable("revision "+fmt.Sprint(record.Revision), err))
		}
		wanted, err := decide.ParseManifest(content.Manifest)
		if err != nil {
			return decide.Unread(decide.Unreadable("the release's manifest", err))
		}
		client, err := e.objects()
		if err != nil {
			return decide.Skipf("%v", err)
		}
		drifts, err := compareAll(ctx, client, wanted)
		if err != nil {
			return decide.Unread(err)
		}
		return decide.Drift(record.Revision, drifts, e.Namespace)
	})
}

func compareAll(ctx context.Context, client *objects, wanted []unstructured.Unstructured) ([]decide.ObjectDrift, error) {
	out := make([]decide.ObjectDrift, len(wanted))
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(objectsAtOnce)
	for i := range wanted {
		group.Go(func() error {
			out[i].Object = wanted[i]
			live, err := client.get(gctx, &wanted[i])
			if err != nil {
				return err
			}
			if live == nil {
				out[i].Absent = true
				return nil
			}
			would, err := client.dryRun(gctx, &wanted[i])
			switch {
			case apierrors.IsForbidden(err) && !strings.Contains(err.Error(), "admission"):
				return decide.Unreadable("the difference of "+wanted[i].GetKind()+" "+wanted[i].GetName(), client.explain(err))
			case err != nil && decide.ReasonOf(err) != "":
				out[i].Refused = decide.ReasonOf(err)
			case err != nil:
				return decide.Unreadable("the difference of "+wanted[i].GetKind()+" "+wanted[i].GetName(), client.explain(err))
			default:
				out[i].Fields = decide.Differences(live, would)
			}
			return nil
		})
	}
	return out, group.Wait()
}
