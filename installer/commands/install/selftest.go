// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"errors"

	"github.com/csccm/csccm/installer/kube/selftest"
)

// selfTest has the new controller's program prove from inside the cluster that CloudStack is there for it,
// before it takes anybody's place and before any node is touched.
func (in *Installer) selfTest(ctx context.Context) error {
	if in.Options.SkipSelfTest {
		return nil
	}
	in.Progress.Step("The controller's self-test in the cluster")
	ran := false
	for _, manifest := range in.facts.release.Tests {
		pod, err := selftest.Pod(manifest)
		if err != nil {
			return err
		}
		if pod == nil {
			continue
		}
		r := &selftest.Runner{
			Kube: in.Cluster.Kube, Namespace: in.Cluster.Namespace, Clock: in.Clock, Progress: in.Progress, Logs: in.PodLogs, Scrub: in.scrub,
		}
		result, err := r.Run(ctx, pod)
		var not *selftest.NotRunError
		if errors.As(err, &not) {
			// Nothing is known by it: the checks after the install judge by the controller's log.
			in.Progress.Warn("%v", not)
			in.note("%v", not)
			continue
		}
		if result != nil {
			in.tested = result
			in.sayFindings(result)
		}
		if err != nil {
			return err
		}
		ran = true
		in.note("passed in Pod %s on node %s", result.Pod, result.Node)
		in.Progress.Done("passed in Pod %s on node %s", result.Pod, result.Node)
	}
	if !ran {
		in.Progress.Done("not run")
	}
	return nil
}

func (in *Installer) sayFindings(r *selftest.Result) {
	for _, f := range r.Findings {
		if f.OK {
			in.Progress.Info("%s: %s", f.Subject, f.Text)
		} else {
			in.Progress.Warn("%s: %s", f.Subject, f.Text)
		}
	}
}
