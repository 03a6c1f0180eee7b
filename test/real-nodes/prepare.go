// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/plane"
	"github.com/csccm/csccm/test/realnode"
	"github.com/csccm/csccm/test/testenv"
)

// programs holds what is built before the sandbox starts: inside it there is no network.
type programs struct {
	Planes   map[plane.Minor]string
	Binaries testenv.Binaries
	Images   []string
	Gateway  gatewayFiles
	// Root is the folder of the checkout.
	Root string
	// Rate is the rate of steady traffic, in requests per second; 0 means the client's default.
	Rate int
}

const (
	preparedVariable = "CSCCM_TRUTH_PREPARED"
	// imageVersion is the image tag of this checkout's chart.
	imageVersion = "v0.1.0"
)

// prepare builds all programs and images, and leaves a description of them for the sandboxes in the environment.
func prepare(ctx context.Context, minors []plane.Minor, stderr io.Writer) (_ *programs, err error) {
	defer must.Return(&err)
	module := must.Get(plane.ModuleDir())
	p := &programs{Planes: map[plane.Minor]string{}, Root: filepath.Dir(module)}
	for _, m := range minors {
		p.Planes[m] = must.Get(plane.Ensure(ctx, m, stderr))
	}
	_, _ = fmt.Fprintln(stderr, "Building the programs and images.")
	p.Binaries = must.Get(testenv.Build(ctx, testenv.BuildOptions{Dir: os.Getenv("CSCCM_BIN_DIR"), LDFlags: os.Getenv("CSCCM_LDFLAGS")}))
	images := filepath.Join(filepath.Dir(p.Binaries.CLI), "images")
	p.Images = must.Get(realnode.BuildImages(ctx, images, imageVersion))
	p.Gateway = must.Get(findGateway(ctx, p.Root))
	p.standIns(images)
	b := must.Get(json.Marshal(p))
	return p, os.Setenv(preparedVariable, string(b))
}

// standIns writes images that contain our programs and have the names that manifests of other projects use.
func (p *programs) standIns(dir string) {
	programs := map[string]string{leasewebImage: p.Binaries.Controller} // by image
	for _, example := range ingresses {
		for _, ref := range imagesOf(p.Root, example.file) {
			programs[ref] = filepath.Join(dir, "echo")
		}
	}
	for ref, binary := range programs {
		archive := filepath.Join(dir, archiveName(ref))
		must.OK(realnode.WriteImage(archive, ref, binary))
		p.Images = append(p.Images, archive)
	}
}

// archiveName returns the name of the archive of an image.
func archiveName(ref string) string {
	return strings.NewReplacer("/", "_", ":", "_").Replace(ref) + ".tar"
}

var imageLine = regexp.MustCompile(`(?m)^\s*image: (\S+)$`)

// imagesOf returns the images that a manifest of the checkout uses.
func imagesOf(root, file string) []string {
	var refs []string
	text := must.Get(os.ReadFile(filepath.Join(root, file))) // #nosec G304 -- of the checkout
	for _, m := range imageLine.FindAllStringSubmatch(string(text), -1) {
		refs = append(refs, m[1])
	}
	return refs
}
