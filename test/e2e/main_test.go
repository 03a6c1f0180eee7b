// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/plane"
	"github.com/csccm/csccm/test/testenv"
)

// programs are the paths of the product's programs. The tests share the control planes; one test at a time uses each.
var programs struct {
	testenv.Binaries
	planes *plane.Pool
	skip   string
}

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // as in pkg/provider: the simulators are here
	code, err := must.Try(func() int { return prepare(m) })
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func prepare(m *testing.M) int {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Minute)
	defer cancel()
	_, there := must.Get2(plane.Cached(ctx, plane.Newest))
	if !there && slices.Contains(os.Args, "-test.short=true") {
		programs.skip = "the control plane binary is not built yet, which takes minutes: not with -short"
		return m.Run()
	}

	programs.Binaries = must.Get(testenv.Build(ctx, os.Stderr))

	// The tests mostly wait for Pods, leases and periods: three for each processor run at the same time.
	must.OK(flag.Set("test.parallel", strconv.Itoa(3*runtime.GOMAXPROCS(0)))) // -parallel overrides it
	programs.planes = &plane.Pool{Programs: must.Get(plane.Ensure(ctx, plane.Newest, os.Stderr))}
	code := m.Run()
	must.OK(programs.planes.Stop())

	// Only a run of all tests can find rights that nothing uses.
	whole := flag.Lookup("test.run").Value.String() == "" &&
		flag.Lookup("test.skip").Value.String() == "" &&
		!testing.Short()
	if err := audit.judge(whole || os.Getenv("CSCCM_ALL_PERMISSIONS") != ""); code == 0 {
		must.OK(err)
	}

	return code
}

// borrow returns a control plane for the rest of the test.
func borrow(t *testing.T, o plane.Options) *plane.Plane {
	t.Helper()
	if programs.skip != "" {
		t.Skip(programs.skip)
	}
	p, err := programs.planes.Take(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, programs.planes.Return(context.Background(), p))
	})
	return p
}
