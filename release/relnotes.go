// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"github.com/csccm/csccm/release/internal/notes"
)

// releaseNotes are what changed, what there is and how to verify it, in Markdown. section may be nil.
func releaseNotes(m *made, registry string, section *notes.Section) []byte {
	var out strings.Builder
	tag := strings.ReplaceAll("v"+m.Version, "+", "_") // as registries have it
	fmt.Fprintf(&out, "# csccm v%s\n\n", m.Version)
	if strings.Contains(m.Version, "-") {
		out.WriteString("This is a pre-release: Helm takes it only when it is asked for (`--version` or `--devel`).\n\n")
	}
	if section != nil {
		// The headings of the changelog are one level below its versions, as here.
		out.WriteString(strings.ReplaceAll("\n"+section.Text, "\n### ", "\n## ")[1:] + "\n\n")
	}
	fmt.Fprintf(&out, "## What there is\n\nKubernetes %s or newer; built on Kubernetes %s, %s.\n\n", m.Kubernetes.Minimum, m.Kubernetes.Built, m.Go)
	out.WriteString("| image | digest | platforms |\n|---|---|---|\n")
	for _, i := range m.Images {
		var platforms []string
		for _, p := range i.Platforms {
			platforms = append(platforms, p.Platform)
		}
		fmt.Fprintf(&out, "| `%s/%s:%s` | `%s` | %s |\n", registry, i.Name, tag, i.Digest, strings.Join(platforms, ", "))
	}
	fmt.Fprintf(&out, "\nChart: `oci://%s/charts/cloudstack-ccm`, version %s. Archives of the programs, bills of materials (`*.cdx.json`),\n"+
		"`SHA256SUMS` and `%s` are beside these notes.\n", registry, m.Version, "provenance.sigstore.json")
	if m.Vulnerability == unchecked {
		out.WriteString("\nKnown vulnerabilities were not checked when this release was made.\n")
	}
	fmt.Fprintf(&out, "\n## Verify\n\n```console\ncsccm verify image --public-key-file cosign.pub %s/cloudstack-ccm:%s\ncsccm verify files --public-key-file cosign.pub SHA256SUMS\n```\n", registry, tag)
	return []byte(out.String())
}
