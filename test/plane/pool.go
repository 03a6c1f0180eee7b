// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"

	"github.com/csccm/csccm/test/internal/must"
)

// Pool lends control planes to tests that run at the same time. When a control plane is returned, everything that its
// test created is deleted, and it can be lent again. So etcd and the API server start once for many tests; the
// controller manager and the scheduler start for each test.
type Pool struct {
	// Programs is the folder of the newest minor's programs, as Ensure returns it.
	Programs string

	mu   sync.Mutex
	free []*Plane
}

// Take returns a control plane with an audit log. Of the options, only APIOnly and NodeGrace are used.
func (x *Pool) Take(ctx context.Context, o Options) (p *Plane, err error) {
	x.mu.Lock()
	if n := len(x.free); n > 0 {
		p, x.free = x.free[n-1], x.free[:n-1]
	}

	x.mu.Unlock()
	defer func() {
		if err != nil && p != nil {
			p.Stop()
		}
	}()
	defer must.Return(&err)
	if p == nil {
		p = must.Get(Start(ctx, Options{Programs: x.Programs, Audit: true, APIOnly: true}))
		p.baseline = must.Get(p.newBaseline(ctx))
	}

	// The API server writes whole lines, and there are no requests now.
	p.audited = must.Get(os.Stat(p.file("audit.log"))).Size()
	if !o.APIOnly {
		must.OK(p.startControllers(ctx, o))
	}

	return p, nil
}

// Return takes a control plane back. It stops a control plane that cannot be reset; Take starts another one when
// needed.
func (x *Pool) Return(ctx context.Context, p *Plane) error {
	if err := p.Err(); err != nil {
		return errors.Join(err, x.stop(p))
	}
	p.stopControllers()
	if err := p.baseline.restore(ctx); err != nil {
		return errors.Join(fmt.Errorf("the control plane cannot serve another test: %w", err), x.stop(p))
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.free = append(x.free, p)
	return nil
}

// Stop stops the control planes that are not lent. It fails if one leaves files behind.
func (x *Pool) Stop() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	var errs []error
	for _, p := range x.free {
		errs = append(errs, x.stop(p))
	}
	x.free = nil
	return errors.Join(errs...)
}

func (*Pool) stop(p *Plane) error {
	p.Stop()
	if _, err := os.Stat(p.Dir); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is left behind: %w", p.Dir, err)
	}
	return nil
}
