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

	"github.com/csccm/csccm/test/cloud/api"
	"github.com/csccm/csccm/test/cloud/guard"
	"github.com/csccm/csccm/test/cloud/proxy"
	"github.com/csccm/csccm/test/cloud/world"
	"github.com/csccm/csccm/test/internal/must"
)

// CleanOptions say what is removed: the runs that journals name, one run, or all that the cloud shows.
type CleanOptions struct {
	Run string
	All bool
}

// Clean removes what runs have left in a cloud.
func Clean(ctx context.Context, o Options, c CleanOptions) (err error) {
	defer must.Return(&err)
	journals := must.Get(world.Journals(o.JournalDir))
	var runs, there []string
	for _, j := range journals {
		if j.URL != o.URL || c.Run != "" && c.Run != j.Run {
			continue
		}
		runs = append(runs, j.Run)
		if strings.HasPrefix(filepath.Base(j.Dir), world.Prefix) {
			must.OK(os.RemoveAll(j.Dir))
		}
	}
	// Looking for runs changes nothing, so the guard of no run lets it pass.
	must.OK(o.through(ctx, "none00", func(cl *world.Cleaner) error {
		there, err = world.Runs(ctx, cl.API)
		return err
	}))
	switch {
	case c.All:
		runs = append(runs, there...)
	case c.Run != "":
		runs = append(runs, c.Run)
	}
	slices.Sort(runs)
	runs = slices.Compact(runs)
	var errs []error
	for _, run := range runs {
		_, _ = fmt.Fprintf(o.Log, "run %s\n", run)
		err := o.through(ctx, run, func(cl *world.Cleaner) error { return cl.Clean(ctx) })
		if err == nil {
			err = remove(journals, run)
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

// remove removes the journal of a run, if there is one.
func remove(journals []*world.Journal, run string) error {
	i := slices.IndexFunc(journals, func(j *world.Journal) bool { return j.Run == run })
	if i < 0 {
		return nil
	}
	return journals[i].Remove()
}

// through does something behind the proxy and guard of a run.
func (o *Options) through(ctx context.Context, run string, do func(*world.Cleaner) error) (err error) {
	defer must.Return(&err)
	g := guard.New(world.PrefixOf(run))
	p := must.Get(proxy.New(proxy.Options{Upstream: o.URL, CAFile: o.CAFile, Guard: g}))
	defer p.Stop()
	url := must.Get(p.Listen(ctx, proxy.Suite))
	c := &world.Cleaner{Run: run, API: api.New(url, o.Who), Guard: g, Log: func(format string, a ...any) { _, _ = fmt.Fprintf(o.Log, "  "+format+"\n", a...) }}
	err = do(c)
	if lerr := c.API.Logout(context.WithoutCancel(ctx)); err == nil {
		err = lerr
	}
	if refused := g.Refused(); len(refused) > 0 {
		err = errors.Join(err, fmt.Errorf("the guard refused %s", strings.Join(refused, "; ")))
	}
	return err
}
