// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/spf13/cobra"

	"github.com/csccm/csccm/charts"
	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/pkg/version"
	"github.com/csccm/csccm/release/internal/chartpkg"
	"github.com/csccm/csccm/release/internal/image"
	"github.com/csccm/csccm/release/internal/notes"
	"github.com/csccm/csccm/release/internal/sign"
	"github.com/csccm/csccm/release/internal/source"
	"github.com/csccm/csccm/release/verify"
)

type makeSettings struct {
	selection
	signing
	gate     gate
	output   string
	registry string
	download string
	keyURL   string
	builder  string
	snapshot bool
	dryRun   bool
}

const defaultRegistry = version.Registry

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
		RunE:    func(cmd *cobra.Command, _ []string) error { return o.run(cmd, s) },
	}
	flags := cmd.Flags()
	flags.StringVarP(&o.output, "output", "o", "dist", "directory to write to; it must be empty or missing")
	flags.StringVar(&o.registry, "registry", defaultRegistry, "registry and path of the published images, for the chart's annotations")
	flags.StringVar(&o.download, "download-url", version.Downloads, "base URL of the archives (URL/TAG/FILE), for the krew manifest")
	flags.StringVar(&o.keyURL, "pgp-key-url", version.Raw+"release/keys/chart.asc", "URL of the chart's public PGP key")
	flags.StringVar(&o.builder, "builder", defaultBuilder, "URI of the builder, for the provenance")
	o.addFlags(flags)
	flags.BoolVar(&o.snapshot, "snapshot", false, "make a snapshot of any tree; it cannot be published")
	flags.BoolVar(&o.dryRun, "dry-run", false, "print what would be done, and change nothing")
	o.addKey(flags)
	o.addPGP(flags)
	o.gate.addFlags(flags)
	return cmd
}

// maker makes one release.
type maker struct {
	makeSettings
	*builder
	chosen   []product
	key      *sign.Key
	pgp      *chartpkg.PGP
	section  *notes.Section // of the changelog; nil for a snapshot without one
	contents releaseContents
	krew     []map[string]any
}

// prepare calls do with a maker of the tree, which has a directory for intermediate files.
func (o makeSettings) prepare(cmd *cobra.Command, s *settings, do func(m *maker) error) (err error) {
	m := &maker{makeSettings: o}
	tree, err := s.tree(cmd.Context())
	if err != nil {
		return err
	}
	if m.chosen, err = o.choose(); err != nil {
		return err
	}
	m.section, _ = notes.Read(s.root, tree.Version) // the gate says what is wrong with it
	m.contents = releaseContents{
		SchemaVersion: 1, Version: tree.Version, Tag: tree.Tag(), Commit: tree.Revision, Go: runtime.Version(), Kubernetes: supported,
		Vulnerability: unchecked,
	}
	work, err := os.MkdirTemp("", "csccm-release-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	m.builder = newBuilder(s.root, work, tree, cmd.ErrOrStderr())
	return do(m)
}

func (o makeSettings) run(cmd *cobra.Command, s *settings) (err error) {
	return o.prepare(cmd, s, func(m *maker) error {
		if m.key, err = o.open(); err != nil {
			return err
		}
		if m.pgp, err = o.openPGP(); err != nil {
			return err
		}
		if left, err := os.ReadDir(o.output); err == nil && len(left) > 0 {
			return fmt.Errorf("--output %s is not empty: its files would be added to the checksums", o.output)
		}
		// A dry run also runs the gate.
		if err := m.passGate(cmd); err != nil {
			return err
		}
		return runSteps(cmd.Context(), cmd.OutOrStdout(), o.dryRun, m.steps())
	})
}

func (m *maker) passGate(cmd *cobra.Command) error {
	if m.snapshot {
		m.contents.Tag = "" // publish refuses it
		_, err := fmt.Fprintln(cmd.OutOrStdout(), "snapshot: nothing is checked, and it cannot be published")
		return err
	}
	findings, err := m.gate.check(cmd.Context(), m.root, m.tree, cmd.OutOrStdout())
	for _, f := range findings {
		if f.what == "vulnerabilities" && f.ok { // else the detail describes a problem of this machine
			m.contents.Vulnerability = f.detail
		}
	}
	if m.dryRun && errors.Is(err, errRefused) {
		_, err = fmt.Fprintln(cmd.OutOrStdout(), "would be refused because of the findings above")
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
	steps = append(steps, m.imageSteps()...)
	chart := charts.Name + "-" + m.tree.Version + ".tgz"
	if m.pgp != nil {
		chart += " and its provenance file"
	}
	steps = append(steps,
		step{"package " + chart, m.makeChart},
		step{"render " + helm.ManifestFile, m.makeManifest},
		step{"write notes.md from CHANGELOG.md", func(context.Context) error {
			return writePublic(filepath.Join(m.output, "notes.md"), releaseNotes(&m.contents, m.registry, m.section))
		}},
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

// imageSteps make the images of the chosen products that run on linux.
func (m *maker) imageSteps() []step {
	var steps []step
	for _, p := range m.chosen {
		var linux []source.Platform
		for _, platform := range p.platforms {
			if platform.OS == "linux" {
				linux = append(linux, platform)
			}
		}
		if len(linux) > 0 {
			file := p.Name + "_" + m.tree.ImageTag() + ".oci.tar"
			steps = append(steps, step{fmt.Sprintf("build %s for %v", file, linux), func(ctx context.Context) error {
				return m.makeImage(ctx, p.Spec, linux, file)
			}})
		}
	}
	return steps
}

func (m *maker) makeArchive(ctx context.Context, p product, platform source.Platform) error {
	name, err := m.archive(ctx, p, platform, m.output)
	if err != nil {
		return err
	}
	m.contents.Archives = append(m.contents.Archives, releasedArchive{p.Name, platform.String(), name, sbomName(name)})
	if p.Name != "csccm" {
		return nil
	}
	digest, err := verify.Digest(filepath.Join(m.output, name))
	m.krew = append(m.krew, krewPlatform(platform, strings.TrimSuffix(m.download, "/")+"/"+m.tree.Tag()+"/"+name, digest))
	return err
}

func (m *maker) makeImage(ctx context.Context, spec image.Spec, platforms []source.Platform, file string) error {
	ref, err := name.NewTag(fmt.Sprintf("%s/%s:%s", strings.TrimSuffix(m.registry, "/"), spec.Name, m.tree.ImageTag()))
	if err != nil {
		return fmt.Errorf("--registry: %w", err)
	}
	index, err := m.image(ctx, spec, platforms)
	if err != nil {
		return err
	}
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	result := releasedImage{Name: spec.Name, File: file, Digest: digest.String()}
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
	m.contents.Images = append(m.contents.Images, result)
	return image.Archive(filepath.Join(m.output, file), index, ref, m.tree.Time)
}

func (m *maker) packChart(ctx context.Context) (*chartpkg.Package, error) {
	var a chartpkg.Annotations
	for _, i := range m.contents.Images {
		if i.Name == charts.Name {
			a.Digest = i.Digest
			a.Images = append(a.Images, chartpkg.Image{Name: i.Name, Image: fmt.Sprintf("%s/%s:%s@%s", m.registry, i.Name, m.tree.ImageTag(), i.Digest)})
		}
	}
	if m.section != nil {
		a.Changes = m.section.Changes()
	}
	if m.pgp != nil {
		a.SignKey = &chartpkg.SignKey{Fingerprint: m.pgp.Fingerprint, URL: m.keyURL}
	}
	return chartpkg.Pack(ctx, filepath.Join(m.root, "charts", charts.Name), m.tree, a)
}

func (m *maker) makeChart(ctx context.Context) error {
	packed, err := m.packChart(ctx)
	if err != nil {
		return err
	}
	m.contents.Chart = packed.Filename()
	file := filepath.Join(m.output, packed.Filename())
	if err := writePublic(file, packed.Data); err != nil || m.pgp == nil {
		return err
	}
	signature, err := m.pgp.Sign(file)
	if err != nil {
		return err
	}
	return writePublic(file+".prov", signature)
}

// makeManifest renders the packaged chart, which contains the image's digest.
func (m *maker) makeManifest(ctx context.Context) error {
	packed, err := m.packChart(ctx)
	if err != nil {
		return err
	}
	chart, err := helm.LoadArchive(packed.Data)
	if err != nil {
		return err
	}
	manifest, err := helm.Manifest(ctx, chart, "v"+supported.Built+".0")
	if err != nil {
		return err
	}
	return writePublic(filepath.Join(m.output, helm.ManifestFile), manifest)
}

func (m *maker) makeKrew(context.Context) error {
	if len(m.krew) == 0 {
		return nil // --only excluded csccm
	}
	manifest, err := krewManifest(m.tree, m.krew)
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
	predicate, err := slsaProvenance(m.root, m.tree, m.makeSettings.builder)
	if err != nil {
		return err
	}
	bundle, err := m.key.Attest(verify.PredicateProvenance, predicate, subjects...)
	if err != nil {
		return err
	}
	return writePublic(filepath.Join(m.output, verify.ProvenanceFile), bundle)
}
