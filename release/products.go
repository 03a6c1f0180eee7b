// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"

	"github.com/csccm/csccm/release/internal/gobuild"
	"github.com/csccm/csccm/release/internal/image"
)

// everywhere are the platforms of programs that users run on their own machines.
var everywhere = []gobuild.Platform{
	{OS: "linux", Arch: "amd64"}, {OS: "linux", Arch: "arm64"},
	{OS: "darwin", Arch: "amd64"}, {OS: "darwin", Arch: "arm64"},
	{OS: "windows", Arch: "amd64"}, {OS: "windows", Arch: "arm64"},
}

// product is a program that is released as an image for linux and as archives for its platforms.
type product struct {
	image.Spec
	platforms []gobuild.Platform
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

// selection selects products and platforms by the flags --only and --platform.
type selection struct {
	only      []string
	platforms []string
}

// choose returns the selected products, each with its selected platforms. A platform that no product supports is an
// error; a product that supports none of the selected platforms is omitted.
func (s selection) choose() ([]product, error) {
	for _, only := range s.only {
		if !slices.ContainsFunc(products, func(p product) bool { return p.Name == only }) {
			return nil, fmt.Errorf("--only: there is no program %s", only)
		}
	}
	wanted := everywhere
	if len(s.platforms) > 0 {
		wanted = nil
		for _, text := range s.platforms {
			platform, err := gobuild.ParsePlatform(text)
			if err != nil {
				return nil, fmt.Errorf("--platform: %w", err)
			}
			if !slices.Contains(everywhere, platform) {
				return nil, fmt.Errorf("--platform: nothing is released for %s", platform)
			}
			wanted = append(wanted, platform)
		}
	}
	var chosen []product
	for _, p := range products {
		if len(s.only) > 0 && !slices.Contains(s.only, p.Name) {
			continue
		}
		var platforms []gobuild.Platform
		for _, platform := range p.platforms {
			if slices.Contains(wanted, platform) {
				platforms = append(platforms, platform)
			}
		}
		if len(platforms) > 0 {
			p.platforms = platforms
			chosen = append(chosen, p)
		}
	}
	return chosen, nil
}
