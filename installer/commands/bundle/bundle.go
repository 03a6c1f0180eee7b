// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bundle collects what another person needs to diagnose a cluster into one archive. It takes only what is on
// its list, and removes secrets, names and addresses.
package bundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/cloud/rules"
	"github.com/csccm/csccm/installer/kube/podlog"
	"github.com/csccm/csccm/installer/picture"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/installer/status"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/ui/model"
	"github.com/csccm/csccm/pkg/ui/page"
	"github.com/csccm/csccm/pkg/ui/terminal"
)

// File is one file of a bundle.
type File struct {
	Name string
	Body []byte
}

// Folder returns the name of the directory inside the archive.
func Folder(at time.Time) string { return "csccm-support-" + at.UTC().Format("20060102-150405") }

// Files returns the content of a bundle, index.html first. keepNames leaves names and addresses readable. Secrets are
// always removed.
func Files(checks check.Report, f *check.Facts, keepNames bool) ([]File, error) {
	r := newRedactor([]string{f.Config.APIKey, f.Config.SecretKey}, keepNames)
	learnNames(r, f)

	// The HTML page and the text are made from the redacted values.
	var shown struct {
		status   status.Status
		snapshot model.Snapshot
	}

	var files []File
	for _, part := range []struct {
		name      string
		value, to any
	}{
		{"report.json", checks, nil},
		{"status.json", status.New(checks, f), &shown.status},
		{"snapshot.json", snapshot(checks, f), &shown.snapshot},
		{"controllers.json", f.Controllers, nil},
		{"pods.json", podEntries(f), nil},
		{"revisions.json", f.Records, nil},
	} {
		clean, err := r.value(part.value)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", part.name, err)
		}

		raw, err := json.MarshalIndent(clean, "", "  ")
		if err == nil && part.to != nil {
			err = json.Unmarshal(raw, part.to)
		}

		if err != nil {
			return nil, fmt.Errorf("%s: %w", part.name, err)
		}

		files = append(files, File{part.name, append(raw, '\n')})
	}

	for i, l := range f.Logs {
		files = append(files, File{
			fmt.Sprintf("log-%d.txt", i+1),
			[]byte("log of Pod " + terminal.Line(r.text(l.Pod)) + "\n" + r.text(logText(l.Lines))),
		})
	}

	var index, text bytes.Buffer
	if err := page.Export(&index, shown.snapshot); err != nil {
		return nil, fmt.Errorf("index.html: %w", err)
	}

	_ = shown.status.WriteText(&text, report.Style{Unicode: true, Width: 120}, true) // a bytes.Buffer never fails

	files = append([]File{{"index.html", index.Bytes()}, {"status.txt", text.Bytes()}}, files...)
	for i := range files {
		// Remove control characters, because people print these files on a terminal.
		files[i].Body = []byte(terminal.Plain(string(files[i].Body)))
	}

	return files, nil
}

// learnNames registers the names of this cluster for redaction.
func learnNames(r *redactor, f *check.Facts) {
	r.versions[f.CloudStackVersion] = true
	r.name("node", cloudapi.Names(f.Nodes, func(n *corev1.Node) string { return n.Name })...)
	r.name("service", cloudapi.Names(f.Services, func(s *corev1.Service) string { return s.Name })...)
	r.name("namespace", cloudapi.Names(f.Services, func(s *corev1.Service) string { return s.Namespace })...)

	if f.VMs != nil {
		for _, vm := range f.VMs.All() {
			r.name("node", vm.Name) // usually the name of the Node
			r.name("zone", vm.ZoneName)
			r.name("account", vm.Account)
			r.name("network", cloudapi.Names(vm.NICs, func(n *cloudstack.NIC) string { return n.NetworkName })...)
		}
	}

	learnDeleted(r, f)
	r.name("node", cloudapi.Names(f.Forwards, func(p *cloudstack.PortForwarding) string { return p.VMName })...)
	r.name("network", cloudapi.Names(f.Networks, func(n *cloudstack.Network) string { return n.Name })...)

	if o := f.Owner; o != nil {
		r.name("user", o.Username)
		r.name("account", o.Account)
		r.name("domain", strings.Split(o.Domain, "/")...) // a path or only its last name
	}

	r.name("context", f.Context)
	r.name("user", f.User)
	r.name("project", f.Config.ProjectID)
	r.name("zone", f.Config.Zone)
	r.name("cluster", f.Config.ClusterID)
	r.ready()
}

// deletedName matches the name of a Service, Node or VM in an Event or a log line; the object may no longer exist. The
// second form is the one that the cloud-node-lifecycle-controller of Kubernetes logs.
var deletedName = regexp.MustCompile(`(?i)\b(node|vm|service|object|key)s? \\*"([^"\\]+)|checking if (node) (\S+) (?:exists|is shutdown)`)

// learnDeleted registers the names of deleted Services and Nodes that Events, tags and logs still contain.
func learnDeleted(r *redactor, f *check.Facts) {
	var texts []string
	for _, e := range f.Events {
		if check.FromCloud(&e) {
			texts = append(texts, fmt.Sprintf(
				"%s %q %s", e.InvolvedObject.Kind, e.InvolvedObject.Namespace+"/"+e.InvolvedObject.Name, e.Message,
			))
		}
	}

	for _, a := range f.Addresses {
		texts = append(texts, fmt.Sprintf("service %q", a.Tags[plan.TagService]))
	}

	for _, l := range f.Logs {
		for _, line := range l.Lines {
			texts = append(texts, line.Message)
			for _, key := range slices.Sorted(maps.Keys(line.Values)) {
				texts = append(texts, key+` "`+line.Values[key]+`"`, line.Values[key])
			}
		}
	}

	for _, m := range deletedName.FindAllStringSubmatch(strings.Join(texts, "\n"), -1) {
		names := strings.FieldsFunc(m[2]+m[4], func(c rune) bool { return strings.ContainsRune(`[], /:"`, c) })
		r.name(strings.ToLower(m[1]+m[3]), names...)
	}
}

// snapshot returns the data that csccm ui shows; index.html draws it offline. It removes from the facts what a bundle
// does not show.
func snapshot(checks check.Report, f *check.Facts) model.Snapshot {
	p := picture.OfInspection(f, &checks)
	p.Title = "csccm support bundle, " + f.At.UTC().Format(time.RFC3339)
	p.Services, p.Events = listedServices(p.Services), listedEvents(p.Events)
	p.AllRules = slices.DeleteFunc(p.AllRules, func(r cloudstack.LoadBalancerRule) bool {
		return rules.ParseName(r.Name).Family == rules.FamilyForeign
	})
	return picture.Of(&p)
}

// Write writes files as a tar.gz archive with one folder.
func Write(w io.Writer, at time.Time, files []File) error {
	z := gzip.NewWriter(w)
	t := tar.NewWriter(z)
	for _, f := range files {
		h := &tar.Header{
			Name:     Folder(at) + "/" + f.Name,
			Mode:     0o600,
			Size:     int64(len(f.Body)),
			ModTime:  at.UTC().Truncate(time.Second),
			Typeflag: tar.TypeReg,
		}
		if err := t.WriteHeader(h); err != nil {
			return err
		}

		if _, err := t.Write(f.Body); err != nil {
			return err
		}
	}

	return errors.Join(t.Close(), z.Close())
}

// ourAnnotations are the prefixes of the annotations that the controller reads and writes.
var ourAnnotations = []string{"service.beta.kubernetes.io/cloudstack-", "csccm.io/"}

// listedServices returns copies of the Services with our annotations only, and without source ranges.
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

// podEntry is one Pod of the controller in pods.json.
type podEntry struct {
	Name       string   `json:"name"`
	Node       string   `json:"node"`
	Phase      string   `json:"phase"`
	Containers []string `json:"containers"`
}

func podEntries(f *check.Facts) []podEntry {
	out := []podEntry{}
	for _, p := range f.Pods {
		e := podEntry{Name: p.Name, Node: p.Spec.NodeName, Phase: string(p.Status.Phase)}
		for _, s := range p.Status.ContainerStatuses {
			state := "running"
			switch {
			case s.State.Waiting != nil:
				state = "waiting: " + s.State.Waiting.Reason
			case s.State.Terminated != nil:
				state = fmt.Sprintf("ended with %d: %s", s.State.Terminated.ExitCode, s.State.Terminated.Reason)
			}

			e.Containers = append(e.Containers,
				fmt.Sprintf("%s image %s ready=%t restarts=%d %s", s.Name, s.Image, s.Ready, s.RestartCount, state))
		}

		out = append(out, e)
	}

	return out
}

// listedEvents returns the Events that check.FromCloud selects.
func listedEvents(events []corev1.Event) []corev1.Event {
	return slices.DeleteFunc(slices.Clone(events), func(e corev1.Event) bool { return !check.FromCloud(&e) })
}

// logValues are the keys of structured log lines whose values the bundle contains; other values become "...".
var logValues = []string{
	"err", "error", "remedy", "retryIn", "scope", "node", "nodes", "vm", "service", "action", "zone", "hint", "lease",
	"identity", "reason", "type", "object", "controller", "key", "count", "duration",
}

// logText returns the lines of a log, with the values of logValues only.
func logText(lines []podlog.Line) string {
	var b strings.Builder
	for _, l := range lines {
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
