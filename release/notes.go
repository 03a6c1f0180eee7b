// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/csccm/csccm/release/internal/notes"
	"github.com/csccm/csccm/release/internal/source"
	"github.com/csccm/csccm/release/verify"
)

// releaseNotes returns the release notes in Markdown: changes, artefacts and how to verify them. section may be nil.
func releaseNotes(m *releaseContents, registry string, section *notes.Section) []byte {
	var out strings.Builder
	tag := strings.ReplaceAll("v"+m.Version, "+", "_") // tags in registries cannot contain "+"
	fmt.Fprintf(&out, "# csccm v%s\n\n", m.Version)
	if strings.Contains(m.Version, "-") {
		out.WriteString("This is a pre-release: Helm uses it only with `--version` or `--devel`.\n\n")
	}
	if section != nil {
		// In the notes, "##" is the level of these headings, not of versions as in the changelog.
		out.WriteString(strings.ReplaceAll("\n"+section.Text, "\n### ", "\n## ")[1:] + "\n\n")
	}
	fmt.Fprintf(&out, "## Artefacts\n\nFor Kubernetes %s or newer; built with Kubernetes %s and %s.\n\n", m.Kubernetes.Minimum, m.Kubernetes.Built, m.Go)
	out.WriteString("| image | digest | platforms |\n|---|---|---|\n")
	for _, i := range m.Images {
		var platforms []string
		for _, p := range i.Platforms {
			platforms = append(platforms, p.Platform)
		}
		fmt.Fprintf(&out, "| `%s/%s:%s` | `%s` | %s |\n", registry, i.Name, tag, i.Digest, strings.Join(platforms, ", "))
	}
	fmt.Fprintf(&out, "\nChart: `oci://%s/charts/cloudstack-ccm`, version %s. Archives of the programs, SBOMs (`*.cdx.json`),\n"+
		"`%s` and `%s` are published with these notes.\n", registry, m.Version, verify.SumsFile, verify.ProvenanceFile)
	if m.Vulnerability == unchecked {
		out.WriteString("\nKnown vulnerabilities were not checked when this release was made.\n")
	}
	fmt.Fprintf(&out, "\n## Verify\n\n```console\ncsccm verify image --public-key-file cosign.pub %s/cloudstack-ccm:%s\ncsccm verify files --public-key-file cosign.pub SHA256SUMS\n```\n", registry, tag)
	return []byte(out.String())
}

// krewPlatform returns the entry of krew's manifest for an archive of csccm; sum is its SHA-256 in hex.
func krewPlatform(platform source.Platform, url, sum string) map[string]any {
	bin := "csccm"
	if platform.OS == "windows" {
		bin += ".exe"
	}
	return map[string]any{
		"selector": map[string]any{"matchLabels": map[string]string{"os": platform.OS, "arch": platform.Arch}},
		"uri":      url,
		"sha256":   sum,
		"files":    []map[string]string{{"from": bin, "to": "."}, {"from": "LICENSE", "to": "."}},
		"bin":      bin,
	}
}

// krewManifest returns the manifest with which krew installs csccm as `kubectl csccm`.
func krewManifest(tree source.Tree, platforms []map[string]any) ([]byte, error) {
	return yaml.Marshal(map[string]any{
		"apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
		"kind":       "Plugin",
		"metadata":   map[string]string{"name": "csccm"},
		"spec": map[string]any{
			"version":          tree.Tag(),
			"homepage":         repository,
			"shortDescription": "Install and check the CloudStack cloud controller",
			// krew-index requires lines of at most 80 characters.
			"description": "Installs the cloud controller manager for Apache CloudStack in a cluster,\n" +
				"checks that it works, and migrates running clusters to it.\n",
			"caveats": "Start with: kubectl csccm doctor\n" +
				"It connects to the cluster, to CloudStack, and to registries that you name.\n",
			"platforms": platforms,
		},
	})
}
