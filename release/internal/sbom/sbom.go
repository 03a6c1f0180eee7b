// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sbom generates SBOMs (CycloneDX 1.6, JSON) of binaries and images from the build information in the binary.
// They list the modules that are linked, not all dependencies in go.mod.
package sbom

import (
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/csccm/csccm/release/internal/gobuild"
	"github.com/csccm/csccm/release/internal/source"
)

const module = "github.com/csccm/csccm"

// BOM is a software bill of materials (SBOM).
type BOM struct {
	Schema       string       `json:"$schema"`
	Format       string       `json:"bomFormat"`
	SpecVersion  string       `json:"specVersion"`
	SerialNumber string       `json:"serialNumber"`
	Version      int          `json:"version"`
	Metadata     Metadata     `json:"metadata"`
	Components   []Component  `json:"components"`
	Dependencies []Dependency `json:"dependencies"`
}

// Metadata describes the subject of the SBOM.
type Metadata struct {
	Timestamp string    `json:"timestamp"`
	Tools     Tools     `json:"tools"`
	Component Component `json:"component"`
}

// Tools are the programs that generated the SBOM.
type Tools struct {
	Components []Component `json:"components"`
}

// Component is a program, an image or a module.
type Component struct {
	Type       string      `json:"type"`
	Ref        string      `json:"bom-ref,omitempty"`
	Name       string      `json:"name"`
	Version    string      `json:"version,omitempty"`
	Scope      string      `json:"scope,omitempty"`
	Hashes     []Hash      `json:"hashes,omitempty"`
	Licenses   []License   `json:"licenses,omitempty"`
	PURL       string      `json:"purl,omitempty"`
	Properties []Property  `json:"properties,omitempty"`
	Components []Component `json:"components,omitempty"`
}

// Hash is the hash of a component's file, or the SHA-256 of a module in go.sum.
type Hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

// License is identified by its SPDX identifier.
type License struct {
	License struct {
		ID string `json:"id"`
	} `json:"license"`
}

// Property is data for which CycloneDX has no field.
type Property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Dependency lists what a component depends on.
type Dependency struct {
	Ref       string   `json:"ref"`
	DependsOn []string `json:"dependsOn,omitempty"`
}

// Binary returns the SBOM of a built program.
func Binary(file, name string, platform gobuild.Platform, tree source.Tree) (*BOM, error) {
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

func of(info *debug.BuildInfo, name string, platform gobuild.Platform, digest string, tree source.Tree) *BOM {
	main := Component{
		Type:     "application",
		Ref:      fmt.Sprintf("pkg:golang/%s@%s?goos=%s&goarch=%s#cmd/%s", module, tree.Tag(), platform.OS, platform.Arch, name),
		Name:     name,
		Version:  tree.Tag(),
		Hashes:   []Hash{{"SHA-256", digest}},
		Licenses: apache(),
	}
	main.PURL = main.Ref
	for _, setting := range info.Settings {
		// Omit the other settings: -ldflags repeats the version, and the rest is not useful to readers.
		if slices.Contains([]string{"CGO_ENABLED", "GOOS", "GOARCH", "GOAMD64", "GOARM64", "-trimpath", "GOFIPS140"}, setting.Key) {
			main.Properties = append(main.Properties, Property{"csccm:go:" + setting.Key, setting.Value})
		}
	}
	bom := &BOM{
		Schema:       "http://cyclonedx.org/schema/bom-1.6.schema.json",
		Format:       "CycloneDX",
		SpecVersion:  "1.6",
		SerialNumber: serial(name, platform.String(), digest),
		Version:      1,
		Metadata: Metadata{
			Timestamp: tree.Time.UTC().Format(time.RFC3339),
			Tools:     Tools{[]Component{{Type: "application", Name: "csccm-release", Version: tree.Tag()}}},
			Component: main,
		},
		Components: modules(info),
	}
	bom.link()
	return bom
}

// serial returns a name-based UUID, so that the same content gives the same serial number.
func serial(parts ...string) string {
	return "urn:uuid:" + uuid.NewSHA1(uuid.NameSpaceURL, []byte("https://"+module+"#"+strings.Join(parts, "#"))).String()
}

func apache() []License {
	var l License
	l.License.ID = "Apache-2.0"
	return []License{l}
}

// modules returns the linked modules and Go's standard library.
func modules(info *debug.BuildInfo) []Component {
	version := strings.TrimPrefix(info.GoVersion, "go")
	version, _, _ = strings.Cut(version, " ") // experiments follow
	all := []Component{{
		Type: "library", Ref: "pkg:golang/std@" + version, Name: "std", Version: version, Scope: "required", PURL: "pkg:golang/std@" + version,
	}}
	for _, dep := range info.Deps {
		if dep.Replace != nil {
			dep = dep.Replace
		}
		purl := "pkg:golang/" + dep.Path + "@" + strings.ReplaceAll(dep.Version, "+", "%2B")
		c := Component{Type: "library", Ref: purl, Name: dep.Path, Version: dep.Version, Scope: "required", PURL: purl}
		if sum, ok := strings.CutPrefix(dep.Sum, "h1:"); ok {
			if raw, err := base64.StdEncoding.DecodeString(sum); err == nil {
				c.Hashes = []Hash{{"SHA-256", hex.EncodeToString(raw)}}
			}
		}
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b Component) int { return cmp.Compare(a.Ref, b.Ref) })
	return all
}

// link adds a dependency of the subject on every component: a binary does not contain which module needs which.
func (b *BOM) link() {
	main := Dependency{Ref: b.Metadata.Component.Ref}
	for _, c := range b.Components {
		main.DependsOn = append(main.DependsOn, c.Ref)
	}
	b.Dependencies = []Dependency{main}
}

// Image returns the SBOM of the image for one platform that contains the program with the SBOM binary, and root
// certificates from the given version of their module. digest is sha256:HEX of the image's manifest.
func Image(binary *BOM, digest, certificates string) *BOM {
	hash := strings.TrimPrefix(digest, "sha256:")
	program := binary.Metadata.Component
	image := Component{
		Type:     "container",
		Ref:      "pkg:oci/" + program.Name + "@sha256%3A" + hash,
		Name:     program.Name,
		Version:  program.Version,
		Hashes:   []Hash{{"SHA-256", hash}},
		Licenses: apache(),
	}
	image.PURL = image.Ref
	bom := *binary
	bom.SerialNumber = serial("image", digest)
	bom.Metadata.Component = image
	roots := "pkg:golang/golang.org/x/crypto/x509roots/fallback@" + certificates
	bom.Components = append([]Component{program}, binary.Components...)
	if !slices.ContainsFunc(bom.Components, func(c Component) bool { return c.Ref == roots }) {
		bom.Components = append(bom.Components, Component{
			Type: "library", Ref: roots, Name: "golang.org/x/crypto/x509roots/fallback", Version: certificates, Scope: "required", PURL: roots,
		})
	}
	bom.Dependencies = append([]Dependency{{Ref: image.Ref, DependsOn: []string{program.Ref, roots}}}, binary.Dependencies...)
	return &bom
}

// JSON returns the content of the SBOM file.
func (b *BOM) JSON() ([]byte, error) {
	out, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return nil, err
	}
	return append(out, '\n'), nil
}
