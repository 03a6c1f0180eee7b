// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package krew writes the manifest with which krew installs csccm as `kubectl csccm`.
package krew

import (
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/csccm/csccm/release/internal/gobuild"
	"github.com/csccm/csccm/release/internal/source"
)

// Archive is a release's archive with the program.
type Archive struct {
	Platform gobuild.Platform
	URL      string
	// SHA256 is in hex.
	SHA256 string
}

type manifest struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec spec `json:"spec"`
}

type spec struct {
	Version          string     `json:"version"`
	Homepage         string     `json:"homepage"`
	ShortDescription string     `json:"shortDescription"`
	Description      string     `json:"description"`
	Caveats          string     `json:"caveats"`
	Platforms        []platform `json:"platforms"`
}

type platform struct {
	Selector struct {
		MatchLabels map[string]string `json:"matchLabels"`
	} `json:"selector"`
	URI    string `json:"uri"`
	SHA256 string `json:"sha256"`
	Files  []file `json:"files"`
	Bin    string `json:"bin"`
}

type file struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// Manifest returns the manifest of a plugin. The plugin's program has the same name.
func Manifest(name string, tree source.Tree, archives []Archive) ([]byte, error) {
	if len(archives) == 0 {
		return nil, fmt.Errorf("krew manifest of %s: no archives", name)
	}
	var m manifest
	m.APIVersion, m.Kind, m.Metadata.Name = "krew.googlecontainertools.github.com/v1alpha2", "Plugin", name
	m.Spec = spec{
		Version:          tree.Tag(),
		Homepage:         "https://github.com/csccm/csccm",
		ShortDescription: "Install and check the CloudStack cloud controller",
		// krew-index requires lines of at most 80 characters.
		Description: "Installs the cloud controller manager for Apache CloudStack in a cluster,\n" +
			"checks that it works, and migrates running clusters to it.\n",
		Caveats: "Start with: kubectl csccm doctor\n" +
			"It connects to the cluster, to CloudStack, and to registries that you name.\n",
	}
	for _, a := range archives {
		bin := name
		if a.Platform.OS == "windows" {
			bin += ".exe"
		}
		if len(a.SHA256) != 64 || strings.Trim(a.SHA256, "0123456789abcdef") != "" {
			return nil, fmt.Errorf("krew manifest of %s: %q is not a SHA-256 digest", name, a.SHA256)
		}
		p := platform{URI: a.URL, SHA256: a.SHA256, Bin: bin, Files: []file{{bin, "."}, {"LICENSE", "."}}}
		p.Selector.MatchLabels = map[string]string{"os": a.Platform.OS, "arch": a.Platform.Arch}
		m.Spec.Platforms = append(m.Spec.Platforms, p)
	}
	return yaml.Marshal(m)
}
