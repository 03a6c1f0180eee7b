// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/csccm/csccm/charts"
	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/release/internal/chartpkg"
	"github.com/csccm/csccm/release/internal/gate"
	"github.com/csccm/csccm/release/internal/gobuild"
	"github.com/csccm/csccm/release/internal/image"
	"github.com/csccm/csccm/release/internal/krew"
	"github.com/csccm/csccm/release/internal/notes"
	"github.com/csccm/csccm/release/internal/provenance"
	"github.com/csccm/csccm/release/internal/sign"
	"github.com/csccm/csccm/release/internal/source"
	"github.com/csccm/csccm/release/verify"
)

type makeSettings struct {
	selection
	signing
	gateSettings
	output   string
	registry string
	download string
	keyURL   string
	builder  string
	snapshot bool
	dryRun   bool
}

func newMakeCommand(s *settings) *cobra.Command {
	var o makeSettings
	cmd := &cobra.Command{
		Use:   "make",
		Short: "Make a release: archives, images, chart, SBOMs, provenance, checksums, signatures",
		Long: "Make a release in a directory and publish nothing: archives of the programs, images, the chart, SBOMs\n" +
			"(CycloneDX), provenance (SLSA), checksums, signatures, the krew manifest and the release notes. The tree must\n" +
			"have no changes, a tag and a section in CHANGELOG.md, and its tests must have passed (release test).",
		Example: "  release make --dry-run --unsigned\n  COSIGN_PASSWORD=... release make --key cosign.key",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			tree, err := s.tree(cmd.Context())
			if err != nil {
				return err
			}
			return o.run(cmd.Context(), s.root, tree, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&o.output, "output", "o", "dist", "directory to write to; it must be empty or missing")
	flags.StringVar(&o.registry, "registry", "ghcr.io/csccm", "registry and path of the published images, for the chart's annotations")
	flags.StringVar(&o.download, "download-url", "https://github.com/csccm/csccm/releases/download", "base URL of the archives (URL/TAG/FILE), for the krew manifest")
	flags.StringVar(&o.keyURL, "pgp-key-url", "https://raw.githubusercontent.com/csccm/csccm/main/release/keys/chart.asc", "URL of the chart's public PGP key")
	flags.StringVar(&o.builder, "builder", provenance.DefaultBuilder, "URI of the builder, for the provenance")
	flags.StringSliceVar(&o.platforms, "platform", nil, "platforms to build for (default: all)")
	flags.StringSliceVar(&o.only, "only", nil, "programs to build (default: all)")
	flags.BoolVar(&o.snapshot, "snapshot", false, "make a snapshot of any tree; it cannot be published")
	flags.BoolVar(&o.dryRun, "dry-run", false, "print what would be done, and change nothing")
	o.addKey(flags)
	o.addPGP(flags)
	o.addGate(flags)
	return cmd
}

// maker makes one release.
type maker struct {
	makeSettings
	*builder
	chosen   []product
	key      *sign.Key
	pgp      *chartpkg.PGP
	out      io.Writer
	contents releaseContents
	archives []krew.Archive
}

func (o makeSettings) run(ctx context.Context, root string, tree source.Tree, out, progress io.Writer) (err error) {
	m := &maker{makeSettings: o, out: out}
	if m.chosen, err = o.choose(); err != nil {
		return err
	}
	if m.key, err = o.open(); err != nil {
		return err
	}
	if m.pgp, err = o.openPGP(); err != nil {
		return err
	}
	if left, err := os.ReadDir(o.output); err == nil && len(left) > 0 {
		return fmt.Errorf("--output %s is not empty: its files would be added to the checksums", o.output)
	}
	m.contents = releaseContents{
		SchemaVersion: 1, Version: tree.Version, Tag: tree.Tag(), Commit: tree.Revision, Go: runtime.Version(), Kubernetes: supported,
		Vulnerability: unchecked,
	}
	work, err := os.MkdirTemp("", "csccm-release-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	m.builder = newBuilder(root, work, tree, progress)
	// A dry run also runs the gate.
	if err := m.gate(ctx); err != nil {
		return err
	}
	return runSteps(ctx, out, o.dryRun, m.steps())
}

func (m *maker) gate(ctx context.Context) error {
	if m.snapshot {
		m.contents.Tag = "" // publish refuses it
		_, err := fmt.Fprintln(m.out, "snapshot: nothing is checked, and it cannot be published")
		return err
	}
	findings, err := gate.Check(ctx, m.tree, m.conditions(m.root))
	for _, f := range findings {
		if _, err := fmt.Fprintln(m.out, f); err != nil {
			return err
		}
		if f.What == "vulnerabilities" {
			m.contents.Vulnerability = f.Detail
			if !f.OK {
				m.contents.Vulnerability = unchecked // the detail describes a problem of this machine
			}
		}
	}
	if m.dryRun && errors.Is(err, gate.ErrRefused) {
		_, err = fmt.Fprintln(m.out, "would be refused because of the findings above")
	}
	return err
}

func (m *maker) steps() []step {
	steps := []step{{"create the directory " + m.output, func(context.Context) error {
		return os.MkdirAll(m.output, 0o755) //nolint:gosec // public artefacts
	}}}
	for _, p := range m.chosen {
		for _, platform := range p.platforms {
			name := archiveName(p.Name, platform, m.tree)
			steps = append(steps, step{"build " + name + " and " + sbomName(name), func(ctx context.Context) error {
				return m.makeArchive(ctx, p, platform)
			}})
		}
	}
	for _, p := range m.chosen {
		if linux := linuxOf(p); len(linux) > 0 {
			steps = append(steps, step{fmt.Sprintf("build %s for %v", imageFile(p.Name, m.tree), linux), func(ctx context.Context) error {
				return m.makeImage(ctx, p.Spec, linux)
			}})
		}
	}
	chart := charts.Name + "-" + m.tree.Version + ".tgz"
	if m.pgp != nil {
		chart += " and its provenance file"
	}
	steps = append(steps,
		step{"package " + chart, m.makeChart},
		step{"render " + helm.ManifestFile, m.makeManifest},
		step{"write notes.md from CHANGELOG.md", m.makeNotes},
		step{"write csccm.yaml for krew", m.makeKrew},
		step{"write " + contentsFile, func(context.Context) error { return m.contents.write(m.output) }},
	)
	if m.key == nil {
		return append(steps, step{"write " + verify.SumsFile + ", unsigned and without provenance", m.makeSums})
	}
	return append(steps,
		step{"write " + verify.SumsFile + " and sign it: " + verify.SumsSignature + ", " + verify.SumsBundle, m.makeSums},
		step{"write and sign " + verify.ProvenanceFile, m.makeProvenance},
	)
}

func linuxOf(p product) []gobuild.Platform {
	var linux []gobuild.Platform
	for _, platform := range p.platforms {
		if platform.OS == "linux" {
			linux = append(linux, platform)
		}
	}
	return linux
}

func imageFile(name string, tree source.Tree) string {
	return name + "_" + tree.ImageTag() + ".oci.tar"
}

func (m *maker) makeArchive(ctx context.Context, p product, platform gobuild.Platform) error {
	names, err := m.archive(ctx, p, platform, m.output)
	if err != nil {
		return err
	}
	m.contents.Archives = append(m.contents.Archives, releasedArchive{p.Name, platform.String(), names[0], names[1]})
	if p.Name != "csccm" {
		return nil
	}
	digest, err := digestOf(filepath.Join(m.output, names[0]))
	if err != nil {
		return err
	}
	m.archives = append(m.archives, krew.Archive{
		Platform: platform, URL: strings.TrimSuffix(m.download, "/") + "/" + m.tree.Tag() + "/" + names[0], SHA256: digest,
	})
	return nil
}

func (m *maker) makeImage(ctx context.Context, spec image.Spec, platforms []gobuild.Platform) error {
	ref, err := imageTag(m.registry, spec.Name, m.tree)
	if err != nil {
		return err
	}
	index, err := m.image(ctx, spec, platforms)
	if err != nil {
		return err
	}
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	result := releasedImage{Name: spec.Name, File: imageFile(spec.Name, m.tree), Digest: digest.String()}
	manifest, err := index.IndexManifest()
	if err != nil {
		return err
	}
	for i, child := range manifest.Manifests {
		bill, err := m.imageSBOM(ctx, spec, platforms[i], child.Digest.String())
		if err != nil {
			return err
		}
		name := fmt.Sprintf("%s_%s_image_%s_%s.cdx.json", spec.Name, m.tree.Version, platforms[i].OS, platforms[i].Arch)
		if err := writePublic(filepath.Join(m.output, name), bill); err != nil {
			return err
		}
		result.Platforms = append(result.Platforms, releasedPlatform{platforms[i].String(), child.Digest.String(), name})
	}
	layout := filepath.Join(m.work, "layout")
	if err := image.Layout(layout, index, ref); err != nil {
		return err
	}
	m.contents.Images = append(m.contents.Images, result)
	return image.Archive(layout, filepath.Join(m.output, result.File), m.tree.Time)
}

func (m *maker) makeChart(context.Context) error {
	var a chartpkg.Annotations
	for _, i := range m.contents.Images {
		if i.Name == charts.Name {
			a.Digest = i.Digest
			a.Images = append(a.Images, chartpkg.Image{Name: i.Name, Image: fmt.Sprintf("%s/%s:%s@%s", m.registry, i.Name, m.tree.ImageTag(), i.Digest)})
		}
	}
	section, err := m.section()
	if err != nil {
		return err
	}
	if section != nil {
		a.Changes = section.Changes()
	}
	if m.pgp != nil {
		a.SignKey = &chartpkg.SignKey{Fingerprint: m.pgp.Fingerprint, URL: m.keyURL}
	}
	packed, err := chartpkg.Pack(filepath.Join(m.root, "charts", charts.Name), m.tree, a)
	if err != nil {
		return err
	}
	file, err := packed.Write(m.output)
	if err != nil {
		return err
	}
	m.contents.Chart = packed.Filename()
	if m.pgp != nil {
		_, err = m.pgp.Sign(file)
	}
	return err
}

// makeManifest renders the packaged chart, which contains the image's digest.
func (m *maker) makeManifest(ctx context.Context) error {
	packed, err := helm.Load(filepath.Join(m.output, m.contents.Chart), "") //nolint:contextcheck // a file
	if err != nil {
		return err
	}
	manifest, err := helm.Manifest(ctx, packed, "v"+supported.Built+".0")
	if err != nil {
		return err
	}
	return writePublic(filepath.Join(m.output, helm.ManifestFile), manifest)
}

// section returns the version's section of the changelog; nil for a snapshot without one.
func (m *maker) section() (*notes.Section, error) {
	text, err := os.ReadFile(filepath.Join(m.root, "CHANGELOG.md"))
	if err != nil {
		return nil, err
	}
	section, err := notes.Find(string(text), m.tree.Version)
	if err != nil && m.snapshot {
		return nil, nil //nolint:nilnil // a snapshot needs no section
	}
	return section, err
}

func (m *maker) makeNotes(context.Context) error {
	section, err := m.section()
	if err != nil {
		return err
	}
	return writePublic(filepath.Join(m.output, "notes.md"), releaseNotes(&m.contents, m.registry, section))
}

func (m *maker) makeKrew(context.Context) error {
	if len(m.archives) == 0 {
		return nil // --only excluded csccm
	}
	manifest, err := krew.Manifest("csccm", m.tree, m.archives)
	if err != nil {
		return err
	}
	return writePublic(filepath.Join(m.output, "csccm.yaml"), manifest)
}

func (m *maker) makeSums(context.Context) error {
	_, text, err := sums(m.output)
	if err != nil {
		return err
	}
	if err := writePublic(filepath.Join(m.output, verify.SumsFile), text); err != nil || m.key == nil {
		return err
	}
	signature, bundle, err := m.key.Blob(text)
	if err != nil {
		return err
	}
	encoded := base64.StdEncoding.EncodeToString(signature) + "\n"
	if err := writePublic(filepath.Join(m.output, verify.SumsSignature), []byte(encoded)); err != nil {
		return err
	}
	return writePublic(filepath.Join(m.output, verify.SumsBundle), bundle)
}

func (m *maker) makeProvenance(context.Context) error {
	subjects, _, err := sums(m.output)
	if err != nil {
		return err
	}
	predicate, err := provenance.Of(m.root, m.tree, m.makeSettings.builder)
	if err != nil {
		return err
	}
	statement, err := sign.Statement(verify.PredicateProvenance, predicate, subjects...)
	if err != nil {
		return err
	}
	bundle, err := m.key.Attest(statement)
	if err != nil {
		return err
	}
	return writePublic(filepath.Join(m.output, verify.ProvenanceFile), bundle)
}
