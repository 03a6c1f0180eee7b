// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package charts_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
)

// scc is what differs between OpenShift's SecurityContextConstraints restricted-v2 and hostnetwork-v2. Both refuse privileges,
// escalation, all capabilities but NET_BIND_SERVICE, other seccomp profiles than runtime/default, and users and groups outside
// of the namespace's range. Their definitions are in bindata/bootkube/scc-manifests of openshift/cluster-kube-apiserver-operator.
type scc struct{ hostNetwork bool }

// The range of a namespace is in its annotations openshift.io/sa.scc.uid-range and openshift.io/sa.scc.supplemental-groups.
const firstID, lastID = 1000650000, 1000659999

// refuses lists the rules that a Pod breaks. What a Pod leaves open is set by OpenShift.
func (s scc) refuses(pod *corev1.PodSpec) (broken []string) {
	rule := func(ok bool, what string) {
		if !ok {
			broken = append(broken, what)
		}
	}
	ours := func(id *int64) bool { return id == nil || *id >= firstID && *id <= lastID }
	profile := func(p *corev1.SeccompProfile) bool {
		return p == nil || p.Type == corev1.SeccompProfileTypeRuntimeDefault
	}
	rule(s.hostNetwork || !pod.HostNetwork, "hostNetwork")
	rule(!pod.HostPID && !pod.HostIPC, "hostPID or hostIPC")
	if c := pod.SecurityContext; c != nil {
		rule(ours(c.RunAsUser), "runAsUser")
		rule(ours(c.FSGroup), "fsGroup")
		rule(c.SELinuxOptions == nil, "seLinuxOptions")
		rule(profile(c.SeccompProfile), "seccompProfile")
	}
	for _, v := range pod.Volumes {
		rule(v.ConfigMap != nil || v.DownwardAPI != nil || v.EmptyDir != nil || v.PersistentVolumeClaim != nil || v.Projected != nil || v.Secret != nil,
			"volume "+v.Name)
	}
	for i := range pod.Containers {
		for _, p := range pod.Containers[i].Ports {
			rule(s.hostNetwork || !pod.HostNetwork && p.HostPort == 0, "hostPort")
		}
		c := pod.Containers[i].SecurityContext
		if c == nil {
			continue
		}
		rule(ours(c.RunAsUser), "runAsUser")
		rule(c.Privileged == nil || !*c.Privileged, "privileged")
		rule(c.AllowPrivilegeEscalation == nil || !*c.AllowPrivilegeEscalation, "allowPrivilegeEscalation")
		rule(c.SELinuxOptions == nil, "seLinuxOptions")
		rule(profile(c.SeccompProfile), "seccompProfile")
		if c.Capabilities != nil {
			for _, added := range c.Capabilities.Add {
				rule(added == "NET_BIND_SERVICE", "capability "+string(added))
			}
		}
	}
	return broken
}

func TestOpenShiftAdmitsThePods(t *testing.T) {
	t.Parallel()
	none := values{"runAsUser": nil, "runAsGroup": nil, "fsGroup": nil}
	for name, tc := range map[string]struct {
		values               values
		restricted, hostOnly []string // what restricted-v2 and hostnetwork-v2 refuse
	}{
		"the defaults":                {nil, []string{"hostNetwork", "runAsUser", "fsGroup", "hostPort"}, []string{"runAsUser", "fsGroup"}},
		"the set of ci/":              {valueSets(t)["openshift"], nil, nil},
		"on the host's network":       {values{"podSecurityContext": none}, []string{"hostNetwork", "hostPort"}, nil},
		"no contexts":                 {values{"hostNetwork": false, "podSecurityContext": nil, "securityContext": nil}, nil, nil},
		"with a user of the range":    {values{"hostNetwork": false, "podSecurityContext": values{"runAsUser": firstID, "fsGroup": lastID}}, nil, nil},
		"with what nobody may have":   {values{"hostNetwork": false, "podSecurityContext": none, "securityContext": values{"privileged": true}}, []string{"privileged"}, []string{"privileged"}},
		"with a volume of the host's": {values{"hostNetwork": false, "podSecurityContext": none, "extraVolumes": []any{values{"name": "x", "hostPath": values{"path": "/"}}}}, []string{"volume x"}, []string{"volume x"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := objects(t, render(t, tc.values))
			_, _, template := workload(t, tc.values)
			assert.Equal(t, tc.restricted, scc{}.refuses(&template.Spec), "restricted-v2")
			assert.Equal(t, tc.hostOnly, scc{hostNetwork: true}.refuses(&template.Spec), "hostnetwork-v2")
			test := find[*corev1.Pod](t, all)
			assert.Equal(t, slices.DeleteFunc(slices.Clone(tc.restricted), func(rule string) bool { return rule == "hostPort" }), slices.Clip(scc{}.refuses(&test.Spec)), "helm test")
		})
	}
}

// Keys that a user gives are added to those of the chart, null takes one away, and the numbers of OpenShift's users stay whole.
func TestSecurityContextsMerge(t *testing.T) {
	t.Parallel()
	_, _, pod := workload(t, values{
		"podSecurityContext": values{"runAsUser": firstID, "fsGroup": nil, "supplementalGroups": []any{lastID}},
		"securityContext":    values{"capabilities": values{"add": []any{"NET_BIND_SERVICE"}}, "runAsNonRoot": nil},
	})
	have := pod.Spec.SecurityContext
	assert.EqualValues(t, firstID, *have.RunAsUser)
	assert.EqualValues(t, 65532, *have.RunAsGroup)
	assert.True(t, *have.RunAsNonRoot)
	assert.Nil(t, have.FSGroup)
	assert.Equal(t, []int64{lastID}, have.SupplementalGroups)
	c := pod.Spec.Containers[0].SecurityContext
	assert.Equal(t, &corev1.Capabilities{Add: []corev1.Capability{"NET_BIND_SERVICE"}, Drop: []corev1.Capability{"ALL"}}, c.Capabilities)
	assert.Nil(t, c.RunAsNonRoot)
	assert.Contains(t, render(t, values{"podSecurityContext": values{"runAsUser": firstID}}), fmt.Sprintf("runAsUser: %d\n", firstID))
}
