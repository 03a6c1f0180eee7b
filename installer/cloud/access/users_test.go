// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package access_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/cloud/access"
	"github.com/csccm/csccm/pkg/testenv/cases"
)

const secret = "cloudstack-secret"

func TestUsers(t *testing.T) {
	cases.Run(t, "testdata/users.yaml", func(t *testing.T, _ string, c struct {
		Pods  []corev1.Pod `json:"pods"`
		Users []string     `json:"users"`
	}) {
		t.Helper()
		var users []string
		for _, u := range access.UsersOf(c.Pods, "kube-system", secret) {
			users = append(users, fmt.Sprintf("%s: %d", &u, u.PodCount))
		}
		require.Equal(t, c.Users, users)
	})
}

func TestCopies(t *testing.T) {
	t.Parallel()
	const key = "an-api-key-of-86-characters"
	object := func(namespace, name string, data ...string) corev1.Secret {
		s := corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string][]byte{}}
		for i := 0; i < len(data); i += 2 {
			s.Data[data[i]] = []byte(data[i+1])
		}
		return s
	}

	all := []corev1.Secret{
		object("storage", "plain", "api-key", key, "secret-key", "x"),
		object("kube-system", secret, "cloud-config", "[Global]\napi-key = "+key+"\n", "csi", "api-key="+key),
		object("autoscaler", "ini", "b", "api-key = "+key, "a", "\""+key+"\""),
		object("other", "nothing", "api-key", "another", "empty", ""),
	}

	none := func(*corev1.Secret, string) bool { return false }
	own := func(s *corev1.Secret, key string) bool { return s.Namespace == "kube-system" && key == "cloud-config" }
	require.Equal(t, []access.Copy{
		{Namespace: "autoscaler", Name: "ini", Keys: []string{"a", "b"}},
		{Namespace: "kube-system", Name: secret, Keys: []string{"csi"}},
		{Namespace: "storage", Name: "plain", Keys: []string{"api-key"}},
	}, access.Copies(all, []string{"of no Secret", key}, own))

	require.Len(t, access.Copies(all, []string{key}, none)[1].Keys, 2)
	require.Empty(t, access.Copies(all, []string{""}, none), "an empty value is in nothing")
}
