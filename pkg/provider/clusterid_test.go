// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestClusterIDFallsBackToTheUID(t *testing.T) {
	t.Parallel()
	const uid = "0b7e4c5e-0000-4000-8000-000000000001"
	for name, tt := range map[string]struct{ flag, config, clusterName, uid, want string }{
		"the flag first":                     {"flag", "config", "name", uid, "flag"},
		"then the cloud-config":              {"", "config", "name", uid, "config"},
		"then the framework's name":          {"", "", "name", uid, "name"},
		"the framework's default is no name": {"", "", "kubernetes", uid, uid},
		"nothing given":                      {"", "", "", uid, uid},
		"an explicit id that is the default": {"kubernetes", "", "", uid, "kubernetes"},
		"the same in the cloud-config":       {"", "kubernetes", "", uid, "kubernetes"},
		"no UID could be read":               {"", "", "kubernetes", "", "kubernetes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, ClusterID(tt.flag, tt.config, tt.clusterName, tt.uid))
		})
	}
}

func TestOwnClusterTag(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		tag, id string
		ownUID  bool
		want    bool
	}{
		"our id":                              {"uid", "uid", false, true},
		"another cluster":                     {"other", "uid", true, false},
		"the old default, our Service":        {"kubernetes", "uid", true, true},
		"the old default, another's Service":  {"kubernetes", "uid", false, false},
		"the old default is still our own id": {"kubernetes", "kubernetes", false, true},
		"no tag":                              {"", "uid", true, false},
		"no tag and no id":                    {"", "", true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, OwnClusterTag(tt.tag, tt.id, tt.ownUID))
		})
	}
}
