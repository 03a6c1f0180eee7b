// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/helm"
)

// backup is a release as it was, enough to install it again by hand.
type backup struct {
	SchemaVersion int            `json:"schemaVersion"`
	Taken         time.Time      `json:"taken"`
	Release       string         `json:"release"`
	Namespace     string         `json:"namespace"`
	Revision      int            `json:"revision"`
	ChartVersion  string         `json:"chartVersion"`
	AppVersion    string         `json:"appVersion"`
	Values        map[string]any `json:"values"`
	Manifest      string         `json:"manifest"`
}

// writeBackup keeps a release in a new file of dir that only its owner may read.
func writeBackup(dir string, r *helm.Release, now time.Time) (string, error) {
	body, err := yaml.Marshal(backup{
		SchemaVersion: 1, Taken: now.UTC(), Release: r.Name, Namespace: r.Namespace, Revision: r.Revision,
		ChartVersion: r.ChartVersion, AppVersion: r.AppVersion, Values: r.Values, Manifest: r.Manifest,
	})
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", noBackup(dir, err)
	}
	path := filepath.Join(dir, fmt.Sprintf("release-%s-%s-r%d-%s.yaml", r.Namespace, r.Name, r.Revision, now.UTC().Format("20060102T150405Z")))
	f, err := os.CreateTemp(dir, ".release-*")
	if err != nil {
		return "", noBackup(dir, err)
	}
	_, err = f.Write(body)
	if serr := f.Sync(); err == nil {
		err = serr
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // the first error is the one to tell
		return "", noBackup(dir, err)
	}
	return path, nil
}

// noBackup is the error of a backup that cannot be kept.
func noBackup(dir string, err error) error {
	return &report.Error{
		What: "nothing was changed: the backup of the release cannot be kept in " + dir, Err: err,
		Fix: "free space there, or name another folder with --backup-dir",
	}
}
