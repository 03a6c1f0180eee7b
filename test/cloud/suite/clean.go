// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/csccm/csccm/test/cloud/proxy"
	"github.com/csccm/csccm/test/cloud/world"
	"github.com/csccm/csccm/test/internal/must"
)

// AllRuns are all runs that the cloud shows, for Clean.
const AllRuns = "all"

// Clean removes what runs have left in a cloud: those that journals name for "", one run, or AllRuns.
func Clean(ctx context.Context, o Options, which string) (err error) {
	defer must.Return(&err)
	journals := must.Get(world.Journals(o.JournalDir))
	var runs, there []string
	for run, j := range journals {
		if j.URL != o.URL || which != "" && which != AllRuns && which != run {
			continue
		}
		runs = append(runs, run)
		if strings.HasPrefix(filepath.Base(j.Dir), world.Prefix) {
			must.OK(os.RemoveAll(j.Dir))
		}
	}
	// Looking for runs changes nothing, so the guard of no run lets it pass.
	must.OK(o.through(ctx, "none00", func(c *world.Cleaner) { there = world.Runs(ctx, c.API) }))
	switch which {
	case "":
	case AllRuns:
		runs = append(runs, there...)
	default:
		runs = append(runs, which)
	}
	slices.Sort(runs)
	runs = slices.Compact(runs)
	var errs []error
	for _, run := range runs {
		_, _ = fmt.Fprintf(o.Log, "run %s\n", run)
		err := o.through(ctx, run, func(c *world.Cleaner) { must.OK(c.Clean(ctx)) })
		if j := journals[run]; err == nil && j != nil {
			err = j.Remove()
		}
		errs = append(errs, err)
	}
	rest := slices.DeleteFunc(there, func(run string) bool { return slices.Contains(runs, run) })
	if len(rest) > 0 {
		_, _ = fmt.Fprintf(o.Log, "runs without a journal here, which somebody else may be working with: %s; remove one by CLOUD_RUN=ID, or all by CLOUD_RUN=all\n",
			strings.Join(rest, ", "))
	}
	if len(runs) == 0 && len(rest) == 0 {
		_, _ = fmt.Fprintln(o.Log, "nothing is left of any run")
	}
	return errors.Join(errs...)
}

// through does something behind the proxy and guard of a run.
func (o *Options) through(ctx context.Context, run string, do func(*world.Cleaner)) error {
	g := proxy.NewGuard(world.PrefixOf(run))
	err := must.Catch(func() {
		p := must.Get(proxy.New(proxy.Options{Upstream: o.URL, CAFile: o.CAFile, Guard: g}))
		defer p.Stop() //nolint:errcheck // it records nothing
		c := &world.Cleaner{
			Run: run, API: world.Connect(ctx, must.Get(p.Listen(ctx, proxy.Suite)), o.Who), Guard: g,
			Log: func(format string, a ...any) { _, _ = fmt.Fprintf(o.Log, "  "+format+"\n", a...) },
		}
		defer c.API.Logout(context.WithoutCancel(ctx)) //nolint:errcheck // the session ends by itself, too
		do(c)
	})
	if refused := g.Refused(); len(refused) > 0 {
		err = errors.Join(err, fmt.Errorf("the guard refused %s", strings.Join(refused, "; ")))
	}
	return err
}
