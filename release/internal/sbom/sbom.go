// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sbom generates SBOMs (CycloneDX 1.6, JSON) of binaries and images from the build information in the binary.
// They list the modules that are linked, not all dependencies in go.mod.
package sbom

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/uuid"

	"github.com/csccm/csccm/release/internal/source"
)

const module = "github.com/csccm/csccm"

// Binary returns the SBOM of a built program.
func Binary(file, name string, platform source.Platform, tree source.Tree) (*cdx.BOM, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	sum := sha256.Sum256(data)
	return of(info, name, platform, hex.EncodeToString(sum[:]), tree), nil
}

func of(info *debug.BuildInfo, name string, platform source.Platform, digest string, tree source.Tree) *cdx.BOM {
	main := cdx.Component{
		Type:     cdx.ComponentTypeApplication,
		BOMRef:   fmt.Sprintf("pkg:golang/%s@%s?goos=%s&goarch=%s#cmd/%s", module, tree.Tag(), platform.OS, platform.Arch, name),
		Name:     name,
		Version:  tree.Tag(),
		Hashes:   sha256Of(digest),
		Licenses: apache(),
	}
	main.PackageURL = main.BOMRef
	var properties []cdx.Property
	for _, setting := range info.Settings {
		// Omit the other settings: -ldflags repeats the version, and the rest is not useful to readers.
		if slices.Contains([]string{"CGO_ENABLED", "GOOS", "GOARCH", "GOAMD64", "GOARM64", "-trimpath", "GOFIPS140"}, setting.Key) {
			properties = append(properties, cdx.Property{Name: "csccm:go:" + setting.Key, Value: setting.Value})
		}
	}
	main.Properties = &properties
	components := modules(info)
	return &cdx.BOM{
		JSONSchema:   "http://cyclonedx.org/schema/bom-1.6.schema.json",
		BOMFormat:    cdx.BOMFormat,
		SpecVersion:  cdx.SpecVersion1_6,
		SerialNumber: serial(name, platform.String(), digest),
		Version:      1,
		Metadata: &cdx.Metadata{
			Timestamp: tree.Time.UTC().Format(time.RFC3339),
			Tools:     &cdx.ToolsChoice{Components: &[]cdx.Component{{Type: cdx.ComponentTypeApplication, Name: "csccm-release", Version: tree.Tag()}}},
			Component: &main,
		},
		Components: &components,
		// A binary does not say which module needs which: the program depends on all of them.
		Dependencies: &[]cdx.Dependency{dependency(main.BOMRef, refsOf(components)...)},
	}
}

func sha256Of(digest string) *[]cdx.Hash {
	return &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: digest}}
}

func dependency(ref string, on ...string) cdx.Dependency {
	return cdx.Dependency{Ref: ref, Dependencies: &on}
}

func refsOf(components []cdx.Component) []string {
	var refs []string
	for _, c := range components {
		refs = append(refs, c.BOMRef)
	}
	return refs
}

func library(purl, name, version string) cdx.Component {
	return cdx.Component{Type: cdx.ComponentTypeLibrary, BOMRef: purl, Name: name, Version: version, Scope: cdx.ScopeRequired, PackageURL: purl}
}

// serial returns a name-based UUID, so that the same content gives the same serial number.
func serial(parts ...string) string {
	return "urn:uuid:" + uuid.NewSHA1(uuid.NameSpaceURL, []byte("https://"+module+"#"+strings.Join(parts, "#"))).String()
}

func apache() *cdx.Licenses {
	return &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}}
}

// modules returns the linked modules and Go's standard library.
func modules(info *debug.BuildInfo) []cdx.Component {
	version := strings.TrimPrefix(info.GoVersion, "go")
	version, _, _ = strings.Cut(version, " ") // experiments follow
	all := []cdx.Component{library("pkg:golang/std@"+version, "std", version)}
	for _, dep := range info.Deps {
		if dep.Replace != nil {
			dep = dep.Replace
		}
		purl := "pkg:golang/" + dep.Path + "@" + strings.ReplaceAll(dep.Version, "+", "%2B")
		c := library(purl, dep.Path, dep.Version)
		if sum, ok := strings.CutPrefix(dep.Sum, "h1:"); ok {
			if raw, err := base64.StdEncoding.DecodeString(sum); err == nil {
				c.Hashes = sha256Of(hex.EncodeToString(raw))
			}
		}
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b cdx.Component) int { return cmp.Compare(a.BOMRef, b.BOMRef) })
	return all
}

// Image returns the SBOM of the image for one platform that contains the program with the SBOM binary, and root
// certificates from the given version of their module. digest is sha256:HEX of the image's manifest.
func Image(binary *cdx.BOM, digest, certificates string) *cdx.BOM {
	hash := strings.TrimPrefix(digest, "sha256:")
	program := *binary.Metadata.Component
	image := cdx.Component{
		Type:     cdx.ComponentTypeContainer,
		BOMRef:   "pkg:oci/" + program.Name + "@sha256%3A" + hash,
		Name:     program.Name,
		Version:  program.Version,
		Hashes:   sha256Of(hash),
		Licenses: apache(),
	}
	image.PackageURL = image.BOMRef
	const fallback = "golang.org/x/crypto/x509roots/fallback"
	roots := library("pkg:golang/"+fallback+"@"+certificates, fallback, certificates)
	components := append([]cdx.Component{program}, *binary.Components...)
	if !slices.Contains(refsOf(components), roots.BOMRef) {
		components = append(components, roots)
	}
	dependencies := append([]cdx.Dependency{dependency(image.BOMRef, program.BOMRef, roots.BOMRef)}, *binary.Dependencies...)
	bom, metadata := *binary, *binary.Metadata
	metadata.Component = &image
	bom.SerialNumber, bom.Metadata, bom.Components, bom.Dependencies = serial("image", digest), &metadata, &components, &dependencies
	return &bom
}

// JSON returns the content of the SBOM file.
func JSON(bom *cdx.BOM) ([]byte, error) {
	var out bytes.Buffer
	err := cdx.NewBOMEncoder(&out, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom)
	return out.Bytes(), err
}
