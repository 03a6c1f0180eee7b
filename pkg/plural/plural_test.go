// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plural_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/plural"
)

func TestCount(t *testing.T) {
	t.Parallel()
	for want, got := range map[string]string{
		"1 Service": plural.Count(1, "Service"), "0 Services": plural.Count(0, "Service"), "2 addresses": plural.Count(2, "address"),
		"1 address": plural.Count(1, "address"), "2 policies": plural.Count(2, "policy"), "3 VMs": plural.Count(3, "VM"), "2 keys": plural.Count(2, "key"),
		"are": plural.Verb(2, "is", "are"), "was": plural.Verb(1, "was", "were"),
	} {
		require.Equal(t, want, got)
	}
}
