// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/installer/engine/diff"
)

// Rendering needs no cluster.
func TestTemplateImages(t *testing.T) {
	t.Parallel()
	r := execute(t, "template", "--kube-version", "v1.37.1", "-n", "infra", "--set", "replicaCount=1")
	require.Equal(t, 0, r.code, r.errOut)
	objects, err := diff.Parse(r.out)
	require.NoError(t, err)
	require.NotEmpty(t, objects)
	require.Contains(t, r.out, "namespace: infra")

	r = execute(t, "images", "--kube-version", "v1.37.1", "--registry", "mirror.example.org/k8s", "-o", "json")
	require.Equal(t, 0, r.code, r.errOut)
	var list imageList
	require.NoError(t, json.Unmarshal([]byte(r.out), &list))
	require.Len(t, list.Images, 1)
	require.True(t, strings.HasPrefix(list.Images[0].Mirror, "mirror.example.org/k8s/"), list.Images[0].Mirror)
}
