// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/seal"
)

func TestCarryRecordKey(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		was  *cloudstack.Config
		want string
	}{
		"nothing before":          {nil, ""},
		"no keys before":          {&cloudstack.Config{}, ""},
		"the same keys":           {&cloudstack.Config{SecretKey: "new"}, ""},
		"the same keys, rotated":  {&cloudstack.Config{SecretKey: "new", PreviousRecordKey: "p"}, "p"},
		"other keys":              {&cloudstack.Config{SecretKey: "old"}, seal.DeriveKey("old")},
		"other keys, once before": {&cloudstack.Config{SecretKey: "old", PreviousRecordKey: "p"}, seal.DeriveKey("old")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			next := &cloudstack.Config{SecretKey: "new"}
			CarryRecordKey(next, tt.was)
			require.Equal(t, tt.want, next.PreviousRecordKey)
		})
	}
	// A record signed before is believed by a controller that knows the new cloud-config alone.
	was := &cloudstack.Config{SecretKey: "old"}
	next := &cloudstack.Config{SecretKey: "new"}
	CarryRecordKey(next, was)
	signature := seal.New(func() []string { return []string{seal.DeriveKey(was.SecretKey)} }).Sign("cluster", "uid")
	after := seal.New(func() []string { return []string{seal.DeriveKey(next.SecretKey), next.PreviousRecordKey} })
	require.True(t, after.Verify(signature, "cluster", "uid"))
}
