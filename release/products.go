// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"

	"github.com/spf13/pflag"

	"github.com/csccm/csccm/release/internal/image"
	"github.com/csccm/csccm/release/internal/source"
)

// everywhere are the platforms of programs that users run on their own machines.
var everywhere = []source.Platform{
	{OS: "linux", Arch: "amd64"}, {OS: "linux", Arch: "arm64"},
	{OS: "darwin", Arch: "amd64"}, {OS: "darwin", Arch: "arm64"},
	{OS: "windows", Arch: "amd64"}, {OS: "windows", Arch: "arm64"},
}

// product is a program that is released as an image for linux and as archives for its platforms.
type product struct {
	image.Spec
	platforms []source.Platform
	// completions is true if the program prints shell completions: NAME completion SHELL.
	completions bool
}

// products are the programs of a release; each is named after its directory in cmd/.
var products = []product{
	{
		Spec: image.Spec{
			Name:        "cloudstack-ccm",
			Title:       "cloudstack-ccm",
			Description: "Cloud controller manager for Apache CloudStack",
			Port:        10258,
		},
		platforms: everywhere[:2], // it runs only on cluster nodes, which run linux
	},
	{
		Spec: image.Spec{
			Name:        "csccm",
			Title:       "csccm",
			Description: "Installs and checks cloudstack-ccm",
		},
		platforms:   everywhere,
		completions: true,
	},
	{
		Spec: image.Spec{
			Name:        "cloudstack-sim",
			Title:       "cloudstack-sim",
			Description: "A simulated Apache CloudStack management server, for tests",
			Args:        []string{"--listen", "0.0.0.0:8080"},
			Port:        8080,
		},
		platforms: everywhere,
	},
}

// selection selects products and platforms.
type selection struct {
	only      []string
	platforms []string
}

func (s *selection) addFlags(flags *pflag.FlagSet) {
	flags.StringSliceVar(&s.platforms, "platform", nil, "platforms to build for (default: all)")
	flags.StringSliceVar(&s.only, "only", nil, "programs to build (default: all)")
}

// choose returns the selected products, each with its selected platforms. A platform that no product supports is an
// error; a product that supports none of the selected platforms is omitted.
func (s selection) choose() ([]product, error) {
	for _, only := range s.only {
		if !slices.ContainsFunc(products, func(p product) bool { return p.Name == only }) {
			return nil, fmt.Errorf("--only: there is no program %s", only)
		}
	}
	for _, text := range s.platforms {
		if !slices.ContainsFunc(everywhere, func(p source.Platform) bool { return p.String() == text }) {
			return nil, fmt.Errorf("--platform: nothing is released for %q, want some of %v", text, everywhere)
		}
	}
	var chosen []product
	for _, p := range products {
		p.platforms = slices.DeleteFunc(slices.Clone(p.platforms), func(platform source.Platform) bool {
			return len(s.platforms) > 0 && !slices.Contains(s.platforms, platform.String())
		})
		if len(p.platforms) > 0 && (len(s.only) == 0 || slices.Contains(s.only, p.Name)) {
			chosen = append(chosen, p)
		}
	}
	return chosen, nil
}

// kubernetes holds the Kubernetes versions of a release. Chart and programs have the version of the tag.
type kubernetes struct {
	// Minimum is the oldest version that the chart supports.
	Minimum string `json:"minimum"`
	// Built is the minor version of the Kubernetes libraries in go.mod.
	Built string `json:"built"`
}

// supported defines these versions. Tests compare it with the chart's kubeVersion, go.mod, README and
// docs/support-policy.md.
var supported = kubernetes{Minimum: "1.33", Built: "1.37"}
