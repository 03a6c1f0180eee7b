// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/csccm/csccm/cmd/csccm/internal/cli"
	"github.com/csccm/csccm/installer/commands/install"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/installer/storage"
)

// csiFlags are about the CSI driver's chart.
type csiFlags struct {
	chart, digest string
	values, set   []string
}

func (f *csiFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.chart, "csi-chart", "", fmt.Sprintf(
		"with --with csi: chart of the driver: folder, .tgz, oci:// or repository URL (default %s %s)", storage.Pinned.Ref(), storage.Pinned.Version))
	flags.StringVar(&f.digest, "csi-chart-digest", "", "with --csi-chart: digest of the content of another version, sha256:...")
	flags.StringArrayVar(&f.values, "csi-values", nil, "with --with csi: file with values of the driver's chart; may be repeated")
	flags.StringArrayVar(&f.set, "csi-set", nil, "with --with csi: value of the driver's chart, name=value; may be repeated")
}

var sha256Digest = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// options reads what needs no connection.
func (f *csiFlags) options(with []string) (o install.CSIOptions, err error) {
	o.Flags = f.typed()
	if !slices.Contains(with, install.WithCSI) {
		if len(o.Flags) > 0 {
			return o, cli.Usagef("%s needs --with csi", o.Flags[0])
		}
		return o, nil
	}
	if f.digest != "" && f.chart == "" {
		return o, cli.Usagef("--csi-chart-digest needs --csi-chart, which names the chart with this content")
	}
	if f.digest != "" && !sha256Digest.MatchString(f.digest) {
		return o, cli.Usagef("--csi-chart-digest %q: want sha256: and 64 hexadecimal digits, as the error of a chart with other content says them", f.digest)
	}
	if o.Values, err = helm.ParseValues(f.values, f.set, nil); err != nil {
		return o, cli.Usagef("--csi-values, --csi-set: %w", err)
	}
	o.Digest = cmp.Or(f.digest, storage.Pinned.Digest)
	o.Load = f.load
	return o, nil
}

// load reads the chart.
func (f *csiFlags) load(ctx context.Context) (*helm.Chart, error) {
	ref, version := cmp.Or(f.chart, storage.Pinned.Ref()), storage.Pinned.Version
	if strings.HasPrefix(ref, "oci://") && strings.ContainsAny(path.Base(ref), ":@") {
		version = "" // the reference names it
	}
	chart, err := helm.LoadContext(ctx, ref, version, false)
	return chart, report.Remedied(err, fmt.Sprintf("correct --csi-chart; without internet, name a copy of chart %s %s: a file, oci:// or a URL that this machine can reach",
		storage.Pinned.Name, storage.Pinned.Version))
}

// typed are the flags as given, for the line that repeats the command.
func (f *csiFlags) typed() []string {
	var out []string
	for _, group := range []struct {
		flag   string
		values []string
	}{{"--csi-chart", []string{f.chart}}, {"--csi-chart-digest", []string{f.digest}}, {"--csi-values", f.values}, {"--csi-set", f.set}} {
		for _, v := range group.values {
			if v != "" {
				out = append(out, group.flag, v)
			}
		}
	}
	return out
}
