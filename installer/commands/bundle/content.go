// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/check/decide"
	"github.com/csccm/csccm/installer/kube/podlog"
	"github.com/csccm/csccm/pkg/ui/terminal"
)

// ourAnnotations are the beginnings of the annotations that the controller reads and writes.
var ourAnnotations = []string{"service.beta.kubernetes.io/cloudstack-", "csccm.io/"}

// listedServices are the Services with what may leave the cluster of them.
func listedServices(services []corev1.Service) []corev1.Service {
	out := slices.Clone(services)
	for i := range out {
		out[i].Annotations = maps.Clone(out[i].Annotations)
		maps.DeleteFunc(out[i].Annotations, func(key, _ string) bool {
			return !slices.ContainsFunc(ourAnnotations, func(p string) bool { return strings.HasPrefix(key, p) })
		})
		out[i].Spec.LoadBalancerSourceRanges = nil
	}
	return out
}

type podEntry struct {
	Name       string   `json:"name"`
	Node       string   `json:"node"`
	Phase      string   `json:"phase"`
	Containers []string `json:"containers"`
}

func podEntries(f *check.Facts) []podEntry {
	out := []podEntry{}
	for i := range f.Pods {
		p := &f.Pods[i]
		e := podEntry{Name: p.Name, Node: p.Spec.NodeName, Phase: string(p.Status.Phase)}
		for j := range p.Status.ContainerStatuses {
			s := &p.Status.ContainerStatuses[j]
			state := "running"
			switch {
			case s.State.Waiting != nil:
				state = "waiting: " + s.State.Waiting.Reason
			case s.State.Terminated != nil:
				state = fmt.Sprintf("ended with %d: %s", s.State.Terminated.ExitCode, s.State.Terminated.Reason)
			}
			e.Containers = append(e.Containers, fmt.Sprintf("%s image %s ready=%t restarts=%d %s", s.Name, s.Image, s.Ready, s.RestartCount, state))
		}
		out = append(out, e)
	}
	return out
}

func listedEvents(events []corev1.Event) []corev1.Event {
	return slices.DeleteFunc(slices.Clone(events), func(e corev1.Event) bool { return !decide.FromCloud(&e) })
}

// logValues are the keys of log lines whose values are taken along.
var logValues = []string{
	"err", "error", "remedy", "retryIn", "scope", "node", "nodes", "vm", "service", "action", "zone", "hint", "lease", "identity", "reason", "type",
	"object", "controller", "key", "count", "duration",
}

// logText writes the lines of a log with the values that may leave the cluster.
func logText(lines []podlog.Line) string {
	var b strings.Builder
	for i := range lines {
		l := &lines[i]
		fmt.Fprintf(&b, "%s %c %s] %s", l.At.UTC().Format(time.RFC3339), l.Level, l.Source, terminal.Line(l.Message))
		for _, key := range slices.Sorted(maps.Keys(l.Values)) {
			text := "..."
			if slices.Contains(logValues, key) {
				text = fmt.Sprintf("%q", l.Values[key])
			}
			fmt.Fprintf(&b, " %s=%s", key, text)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
