// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bundle gathers what somebody else needs to understand a cluster's trouble into one archive, and
// leaves out everything that is not on its list.
package bundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/check/decide"
	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/picture"
	"github.com/csccm/csccm/installer/status"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/ui/model"
	"github.com/csccm/csccm/pkg/ui/page"
	"github.com/csccm/csccm/pkg/ui/terminal"
)

// Input is the content of a bundle.
type Input struct {
	Env    *check.Env
	Report check.Report
	Facts  *check.Facts
	// KeepNames leaves names and addresses readable; secrets go in any case.
	KeepNames bool
}

// File is one file of a bundle.
type File struct {
	Name string
	Body []byte
}

// Folder is the directory inside the archive.
func Folder(at time.Time) string { return "csccm-support-" + at.UTC().Format("20060102-150405") }

// Files makes the content of a bundle, index.html first.
func Files(in Input) ([]File, error) {
	var secrets []string
	if c := in.Env.CloudConfig; c != nil {
		secrets = []string{c.APIKey, c.SecretKey}
	}
	r := newRedactor(secrets, in.KeepNames)
	in.learnNames(r)
	var shown struct { // as redacted
		status   status.Status
		snapshot model.Snapshot
	}
	var files []File
	for _, part := range []struct {
		name      string
		value, to any
	}{
		{"report.json", in.Report, nil}, {"status.json", status.New(in.Env, in.Report, in.Facts), &shown.status},
		{"snapshot.json", in.snapshot(), &shown.snapshot}, {"controllers.json", in.Facts.Controllers, nil},
		{"pods.json", podEntries(in.Facts), nil}, {"revisions.json", in.Facts.Records, nil},
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
	for i, l := range in.Facts.Logs {
		files = append(files, File{fmt.Sprintf("log-%d.txt", i+1), []byte("log of Pod " + terminal.Line(r.text(l.Pod)) + "\n" + r.text(logText(l.Lines)))})
	}
	var index, text bytes.Buffer
	if err := page.Export(&index, shown.snapshot); err != nil {
		return nil, fmt.Errorf("index.html: %w", err)
	}
	if err := shown.status.WriteText(&text, report.Style{Unicode: true, Width: 120}, true); err != nil {
		return nil, fmt.Errorf("status.txt: %w", err)
	}
	files = append([]File{{"index.html", index.Bytes()}, {"status.txt", text.Bytes()}}, files...)
	for i := range files {
		files[i].Body = []byte(terminal.Plain(string(files[i].Body))) // somebody reads them on a terminal
	}
	return files, nil
}

// learnNames registers the names of this cluster for redaction.
func (in *Input) learnNames(r *redactor) {
	f := in.Facts
	r.keep[f.CloudStackVersion] = true
	for i := range f.Nodes {
		r.name("node", f.Nodes[i].Name)
	}
	for i := range f.Services {
		s := &f.Services[i]
		r.name("service", s.Name)
		if s.Namespace != corev1.NamespaceDefault && s.Namespace != "kube-system" {
			r.name("namespace", s.Namespace)
		}
	}
	if f.VMs != nil {
		for _, vm := range f.VMs.All() {
			r.name("node", vm.Name) // the same as the node's, most often
			r.name("zone", vm.ZoneName)
			r.name("account", vm.Account)
			for _, n := range vm.NICs {
				r.name("network", n.NetworkName)
			}
		}
	}
	in.learnDeleted(r)
	for i := range f.Forwards {
		r.name("node", f.Forwards[i].VMName)
	}
	for i := range f.Networks {
		r.name("network", f.Networks[i].Name)
	}
	if o := f.Owner; o != nil {
		r.name("user", o.Username)
		r.name("account", o.Account)
		for _, part := range strings.Split(o.Domain, "/") { // a path or the last name of it
			if part != credentials.DefaultDomain { // every CloudStack has it
				r.name("domain", part)
			}
		}
	}
	if c := in.Env.Cluster; c != nil {
		r.name("context", c.Context)
		r.name("user", c.User)
	}
	if c := in.Env.CloudConfig; c != nil {
		r.name("project", c.ProjectID)
		r.name("zone", c.Zone)
		r.name("cluster", c.ClusterID)
	}
	r.ready()
}

// deletedName is a Service, Node or VM in an Event or a log, which may be gone. The second form is that of Kubernetes'
// cloud-node-lifecycle-controller.
var deletedName = regexp.MustCompile(`(?i)\b(node|vm|service|object|key)s? \\*"([^"\\]+)|checking if (node) (\S+) (?:exists|is shutdown)`)

// learnDeleted registers the names of Services and Nodes that Events, tags and logs still tell of.
func (in *Input) learnDeleted(r *redactor) {
	var texts []string
	for i := range in.Facts.Events {
		if e := &in.Facts.Events[i]; decide.FromCloud(e) {
			texts = append(texts, fmt.Sprintf("%s %q %s", e.InvolvedObject.Kind, e.InvolvedObject.Namespace+"/"+e.InvolvedObject.Name, e.Message))
		}
	}
	for i := range in.Facts.Addresses {
		texts = append(texts, fmt.Sprintf("service %q", in.Facts.Addresses[i].Tags[plan.TagService]))
	}
	for _, l := range in.Facts.Logs {
		for _, line := range l.Lines {
			texts = append(texts, line.Message)
			for _, key := range slices.Sorted(maps.Keys(line.Values)) {
				texts = append(texts, key+` "`+line.Values[key]+`"`, line.Values[key])
			}
		}
	}
	for _, m := range deletedName.FindAllStringSubmatch(strings.Join(texts, "\n"), -1) {
		for _, name := range strings.FieldsFunc(m[2]+m[4], func(c rune) bool { return strings.ContainsRune(`[], /:"`, c) }) {
			if name != corev1.NamespaceDefault && name != "kube-system" {
				r.name(strings.ToLower(m[1]+m[3]), name)
			}
		}
	}
}

// snapshot is what csccm ui shows: index.html draws it for a browser without a network.
func (in *Input) snapshot() model.Snapshot {
	f := picture.OfInspection(in.Facts, &in.Report)
	f.Title = "csccm support bundle, " + in.Facts.At.UTC().Format(time.RFC3339)
	f.Services, f.Events, f.AllRules = listedServices(f.Services), listedEvents(f.Events), in.Facts.Rules
	return picture.Of(&f)
}

// Write packs files into a tar.gz with one folder.
func Write(w io.Writer, at time.Time, files []File) error {
	z := gzip.NewWriter(w)
	t := tar.NewWriter(z)
	for _, f := range files {
		h := &tar.Header{Name: Folder(at) + "/" + f.Name, Mode: 0o600, Size: int64(len(f.Body)), ModTime: at.UTC().Truncate(time.Second), Typeflag: tar.TypeReg}
		if err := t.WriteHeader(h); err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
		if _, err := t.Write(f.Body); err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	if err := t.Close(); err != nil {
		return err
	}
	return z.Close()
}
