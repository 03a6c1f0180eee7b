// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bundle gathers what somebody else needs to understand a cluster's trouble into one archive, and
// leaves out everything that is not on its list.
package bundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/commands/status"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/version"
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
		secrets = []string{c.APIKey, c.SecretKey, c.PreviousRecordKey}
	}
	r := newRedactor(secrets, in.KeepNames)
	in.learnNames(r)
	st := status.New(in.Env, in.Report, in.Facts)
	var files []File
	for _, part := range []struct {
		name  string
		value any
	}{
		{"report.json", in.Report}, {"status.json", st}, {"nodes.json", nodeEntries(in.Facts)}, {"services.json", serviceEntries(in.Facts)},
		{"rules.json", ruleEntries(in.Facts)}, {"forwards.json", forwardEntries(in.Facts)}, {"controllers.json", in.Facts.Controllers}, {"pods.json", podEntries(in.Facts)},
		{"revisions.json", in.Facts.Revisions}, {"events.json", eventEntries(in.Facts)},
	} {
		clean, err := r.value(part.value)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", part.name, err)
		}
		raw, err := json.MarshalIndent(clean, "", "  ")
		if err != nil {
			return nil, fmt.Errorf("%s: %w", part.name, err)
		}
		files = append(files, File{part.name, append(raw, '\n')})
	}
	for i, l := range in.Facts.Logs {
		files = append(files, File{fmt.Sprintf("log-%d.txt", i+1), []byte("log of Pod " + r.text(l.Pod) + "\n" + r.text(logText(l.Lines)))})
	}
	index, err := in.index(files)
	if err != nil {
		return nil, err
	}
	return append([]File{index}, files...), nil
}

// learnNames registers the names of this cluster for redaction.
func (in *Input) learnNames(r *redactor) {
	f := in.Facts
	r.keep[f.CloudStackVersion] = true
	for i := range f.Nodes {
		r.name("node", f.Nodes[i].Name)
		if vm, known := f.VM(&f.Nodes[i]); known {
			r.name("node", vm.Name) // the same as the node's, most often
			r.name("zone", vm.ZoneName)
			r.name("account", vm.Account)
			for _, n := range vm.NICs {
				r.name("network", n.NetworkName)
			}
		}
	}
	for i := range f.Services {
		s := &f.Services[i]
		r.name("service", s.Name)
		if s.Namespace != corev1.NamespaceDefault && s.Namespace != "kube-system" {
			r.name("namespace", s.Namespace)
		}
	}
	for _, members := range f.Members {
		for i := range members {
			r.name("node", members[i].Name)
		}
	}
	for i := range f.Forwards {
		r.name("node", f.Forwards[i].VMName)
	}
	if o := f.Owner; o != nil {
		r.name("user", o.User)
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

//go:embed index.html
var indexTemplate string

var page = template.Must(template.New("index").Parse(indexTemplate))

// index is a page that a browser shows without a network: all files are in it.
func (in *Input) index(files []File) (File, error) {
	var clean struct {
		Report check.Report
		Status status.Status
	}
	for _, f := range files {
		var err error
		switch f.Name {
		case "report.json":
			err = json.Unmarshal(f.Body, &clean.Report)
		case "status.json":
			err = json.Unmarshal(f.Body, &clean.Status)
		}
		if err != nil {
			return File{}, fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	var text strings.Builder
	if err := clean.Status.WriteText(&text, status.TextOptions{Style: report.Style{Unicode: true, Width: 120}, All: true}); err != nil {
		return File{}, err
	}
	type shown struct{ Name, Body string }
	data := struct {
		At, Version, Status string
		KeepNames           bool
		Report              check.Report
		Files               []shown
	}{At: in.Facts.At.UTC().Format(time.RFC3339), Version: version.Version, Status: text.String(), KeepNames: in.KeepNames, Report: clean.Report}
	for _, f := range files {
		data.Files = append(data.Files, shown{f.Name, string(f.Body)})
	}
	var b bytes.Buffer
	if err := page.Execute(&b, data); err != nil {
		return File{}, fmt.Errorf("index.html: %w", err)
	}
	return File{"index.html", b.Bytes()}, nil
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
