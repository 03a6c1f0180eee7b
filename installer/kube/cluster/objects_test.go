// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"

	"github.com/csccm/csccm/pkg/cloudstack"
)

func TestIdentity(t *testing.T) {
	t.Parallel()
	system := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "the-uid"}}
	for name, tt := range map[string]struct {
		words  []string
		config string
		want   string
		asked  bool
	}{
		"nothing":              {nil, "", "the-uid", true},
		"the common name":      {[]string{"--cluster-name=kubernetes"}, "", "the-uid", true},
		"a name":               {[]string{"--cluster-name", "prod"}, "", "prod", false},
		"cloud-config":         {[]string{"--cluster-name=prod"}, "lab", "lab", false},
		"flag":                 {[]string{"--v=2", "--cluster-id=mine", "--cluster-name=prod"}, "lab", "mine", false},
		"the last flag counts": {[]string{"--cluster-id=a", "--cluster-id=b"}, "", "b", false},
		"flag with its value":  {[]string{"--cluster-id", "mine"}, "", "mine", false},
	} {
		kube := fake.NewClientset(system)
		got, err := IDs(t.Context(), kube, &cloudstack.Config{ClusterID: tt.config}, tt.words)
		require.NoError(t, err)
		require.Equal(t, []string{tt.want}, got, name)
		require.Equal(t, tt.asked, len(kube.Actions()) > 0, name)
	}

	config := &cloudstack.Config{ClusterID: "now", FormerClusterIDs: []string{"kubernetes", "old"}}
	got, err := IDs(t.Context(), fake.NewClientset(), config, nil)
	require.NoError(t, err)
	require.Equal(t, []string{"now", "kubernetes", "old"}, got)
	_, err = IDs(t.Context(), fake.NewClientset(), &cloudstack.Config{}, nil)
	require.ErrorContains(t, err, "not found", "no default in place of the UID")
	kube := fake.NewClientset(system)
	kube.PrependReactor("get", "namespaces",
		func(ktesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("forbidden") })
	_, err = IDs(t.Context(), kube, &cloudstack.Config{}, nil)
	require.ErrorContains(t, err, "forbidden", "no guess where the UID may not be read")
}
