// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package charts_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/app/config"
	"k8s.io/cloud-provider/names"
	"k8s.io/cloud-provider/options"
	cliflag "k8s.io/component-base/cli/flag"
	_ "k8s.io/component-base/logs/json/register" // --logging-format=json

	"github.com/csccm/csccm/pkg/provider"
)

type values = map[string]any

// Pods follow all rules of the Pod Security Standard "restricted", except that they may use the host's network, which
// "baseline" forbids, too.
func TestPodsAreRestricted(t *testing.T) {
	t.Parallel()
	for name, values := range valueSets(t) {
		if name == "openshift" {
			continue // the SCC of OpenShift sets the user of the Pods; the script openshift of test/e2e tests it
		}

		pod := workload(t, values).Spec
		require.NotNil(t, pod.SecurityContext, name)
		assert.Equal(t, corev1.SeccompProfileTypeRuntimeDefault, pod.SecurityContext.SeccompProfile.Type, name)
		assert.True(t, *pod.SecurityContext.RunAsNonRoot, name)
		assert.EqualValues(t, 65532, *pod.SecurityContext.RunAsUser, name)
		assert.False(t, pod.HostPID || pod.HostIPC, name)
		require.Len(t, pod.Containers, 1, name)
		c := pod.Containers[0].SecurityContext
		assert.True(t,
			!*c.AllowPrivilegeEscalation && *c.ReadOnlyRootFilesystem && *c.RunAsNonRoot && c.Privileged == nil, name)
		assert.Equal(t, &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}, c.Capabilities, name)
		for _, v := range pod.Volumes {
			assert.True(t, v.Secret != nil || v.ConfigMap != nil || v.EmptyDir != nil, "%s: volume %s", name, v.Name)
		}
	}
}

// The controller parses the arguments that the chart sets. The value sets run one after the other, because the
// framework's commands share flags of the process. Each flag that csccm adds has a value in the chart, so nobody needs
// extraArgs for it.
func TestArgumentsAreFlagsOfTheController(t *testing.T) {
	flags := func() (*provider.Options, cliflag.NamedFlagSets) {
		ours, sections := provider.DefaultOptions(), cliflag.NamedFlagSets{}
		ours.AddFlags(sections.FlagSet("cloudstack"))
		return &ours, sections
	}
	var all []string
	for name, values := range valueSets(t) {
		o, err := options.NewCloudControllerManagerOptions()
		require.NoError(t, err)
		ours, sections := flags()
		initializer := func(*config.CompletedConfig) cloudprovider.Interface { return nil }
		command := app.NewCloudControllerManagerCommand(o, initializer, app.DefaultInitFuncConstructors,
			names.CCMControllerAliases(), sections, nil)

		var given []string
		for _, arg := range args(t, values) {
			if !strings.HasPrefix(arg, "--feature-gates=") { // the feature gates of that value set do not exist
				given = append(given, strings.ReplaceAll(arg, "$(POD_IP)", "10.1.1.11"))
			}
		}
		all = append(all, given...)
		require.NoError(t, command.ParseFlags(given), name)
		require.NoError(t, ours.Validate(), name)
		controllers := slices.Collect(maps.Keys(app.DefaultInitFuncConstructors))
		require.NoError(t, o.Validate(controllers, nil, names.CCMControllerAliases(), nil, nil), name)
		assert.Equal(t, provider.Name, o.KubeCloudShared.CloudProvider.Name)
		assert.True(t, o.Generic.LeaderElection.LeaderElect)
	}
	_, sections := flags()
	sections.FlagSet("cloudstack").VisitAll(func(f *pflag.Flag) {
		set := slices.ContainsFunc(all, func(arg string) bool { return strings.HasPrefix(arg, "--"+f.Name+"=") })
		assert.True(t, set, "no value set of ci/ gives --%s", f.Name)
	})
}

// The kubelet of a Pod's node can read the keys: by default no worker runs a Pod. In a cluster without control plane
// nodes the operator must allow it.
func TestSecurityPodsOnControlPlaneNodesOnly(t *testing.T) {
	t.Parallel()
	required := &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: "node-role.kubernetes.io/control-plane", Operator: corev1.NodeSelectorOpExists},
		}}},
	}

	for name, tc := range map[string]struct {
		values   values
		required *corev1.NodeSelector
	}{
		"the defaults":                       {nil, required},
		"a DaemonSet":                        {values{"kind": "DaemonSet"}, required},
		"a node selector takes nothing away": {values{"nodeSelector": values{"kubernetes.io/os": "linux"}}, required},
		"a managed control plane":            {values{"controlPlaneOnly": false}, nil},
		"a DaemonSet on every node":          {values{"controlPlaneOnly": false, "kind": "DaemonSet"}, nil},
	} {
		test := find[*corev1.Pod](t, objects(t, render(t, tc.values)))
		for _, affinity := range []*corev1.Affinity{workload(t, tc.values).Spec.Affinity, test.Spec.Affinity} {
			assert.Equal(t, tc.required, affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution, name)
			assert.Equal(t, tc.required == nil,
				len(affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution) > 0, name)
		}
	}
}

func args(t *testing.T, values map[string]any) []string {
	t.Helper()
	return workload(t, values).Spec.Containers[0].Args
}

// The role allows what the enabled controllers need; it allows reading namespaces only if the tenancy policy needs
// them.
func TestPermissionsShrink(t *testing.T) {
	t.Parallel()
	const (
		always     = " events create; events patch; nodes get; nodes list; nodes watch"
		initialise = "; nodes update; nodes patch; nodes/status patch"
		services   = "; services get; services list; services watch; services patch; services/status patch;" +
			"discovery.k8s.io endpointslices list;discovery.k8s.io endpointslices watch"
		one, all, gone = ";kube-system namespaces get", "; namespaces get", "; nodes delete"
	)

	const node, lifecycle, service = "cloud-node-controller", "cloud-node-lifecycle-controller", "service-lb-controller"
	of := func(controllers ...any) values { return values{"controllers": controllers} }
	tenancy := func(v values) values { return values{"tenancy": v} }
	zone := func(allowed ...any) values {
		return tenancy(values{"annotations": values{"zone": values{"allow": allowed}}})
	}
	for _, tc := range []struct {
		values values
		want   string
	}{
		{nil, always + services + one + initialise + gone},
		{of(node), always + initialise},
		{of(lifecycle), always + "; nodes patch" + gone},
		{of(service), always + services + one},
		{of(node, lifecycle), always + initialise + gone},
		{zone("a", "*"), always + services + one + initialise + gone},
		{zone("a=b"), always + services + all + initialise + gone},
		{tenancy(values{"trustedNamespaces": []any{"a", "a=b"}}), always + services + all + initialise + gone},
		{tenancy(values{"foreignAddress": values{"allow": []any{"a=b"}}}), always + services + all + initialise + gone},
	} {
		var have []string
		for _, rule := range find[*rbacv1.ClusterRole](t, objects(t, render(t, tc.values))).Rules {
			have = append(have, flat(rule)...)
		}
		assert.ElementsMatch(t, strings.Split(tc.want, ";"), have, "%v", tc.values)
		if strings.Contains(tc.want, services) {
			assert.Equal(t, strings.Contains(tc.want, all), tenancyArgument(t, tc.values).NeedsLabels(), "%v",
				tc.values)
		}
	}
}

func flat(rule rbacv1.PolicyRule) (all []string) {
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				all = append(all, strings.TrimSpace(strings.Join(rule.ResourceNames, ","))+group+" "+resource+" "+verb)
			}
		}
	}
	return all
}
