// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package charts_test

import (
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

func TestSelectorIsFrozen(t *testing.T) {
	t.Parallel()
	want := map[string]string{"app.kubernetes.io/name": "cloudstack-ccm", "app.kubernetes.io/instance": releaseName}
	for name, values := range valueSets(t) {
		_, selector, pod := workload(t, values)
		assert.Equal(t, want, selector.MatchLabels, name)
		for key, value := range want {
			assert.Equal(t, value, pod.Labels[key], name)
		}
		for _, key := range []string{"helm.sh/chart", "app.kubernetes.io/version"} {
			assert.NotContains(t, pod.Labels, key, "a new version of the chart alone must not restart the Pods")
		}
	}
}

// Every rule of the Pod Security Standard "restricted", and of "baseline" all but the host's network.
func TestPodsAreRestricted(t *testing.T) {
	t.Parallel()
	for name, values := range valueSets(t) {
		if name == "openshift" {
			continue // its SCC gives the Pods their user: TestOpenShiftAdmitsThePods
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, template := workload(t, values)
			pod := template.Spec
			require.NotNil(t, pod.SecurityContext)
			assert.Equal(t, corev1.SeccompProfileTypeRuntimeDefault, pod.SecurityContext.SeccompProfile.Type)
			assert.True(t, *pod.SecurityContext.RunAsNonRoot)
			assert.EqualValues(t, 65532, *pod.SecurityContext.RunAsUser)
			assert.False(t, pod.HostPID)
			assert.False(t, pod.HostIPC)
			require.Len(t, pod.Containers, 1)
			c := pod.Containers[0]
			assert.False(t, *c.SecurityContext.AllowPrivilegeEscalation)
			assert.True(t, *c.SecurityContext.ReadOnlyRootFilesystem)
			assert.True(t, *c.SecurityContext.RunAsNonRoot)
			assert.Nil(t, c.SecurityContext.Privileged)
			assert.Equal(t, &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}, c.SecurityContext.Capabilities)
			for _, v := range pod.Volumes {
				assert.True(t, v.Secret != nil || v.ConfigMap != nil || v.EmptyDir != nil, "volume %s", v.Name)
			}
		})
	}
}

// The controller itself reads the arguments that the chart gives it. One after the other, because the framework's commands share flags of the process.
func TestArgumentsAreFlagsOfTheController(t *testing.T) {
	for name, values := range valueSets(t) {
		t.Run(name, func(t *testing.T) {
			o, err := options.NewCloudControllerManagerOptions()
			require.NoError(t, err)
			ours := provider.DefaultOptions()
			var sections cliflag.NamedFlagSets
			ours.AddFlags(sections.FlagSet("cloudstack"))
			initializer := func(*config.CompletedConfig) cloudprovider.Interface { return nil }
			command := app.NewCloudControllerManagerCommand(o, initializer, app.DefaultInitFuncConstructors, names.CCMControllerAliases(), sections, nil)

			var given []string
			for _, arg := range args(t, values) {
				if strings.HasPrefix(arg, "--feature-gates=") {
					continue // the gates of that value set are invented
				}
				given = append(given, strings.ReplaceAll(arg, "$(POD_IP)", "10.1.1.11"))
			}
			require.NoError(t, command.ParseFlags(given))
			require.NoError(t, ours.Validate())
			var controllers []string
			for controller := range app.DefaultInitFuncConstructors {
				controllers = append(controllers, controller)
			}
			require.NoError(t, o.Validate(controllers, nil, names.CCMControllerAliases(), nil, nil))
			assert.Equal(t, provider.Name, o.KubeCloudShared.CloudProvider.Name)
			assert.True(t, o.Generic.LeaderElection.LeaderElect)
		})
	}
}

// The kubelet of a Pod's node may read the keys: by default no worker's can. Without control plane nodes the operator says so.
func TestSecurityPodsOnControlPlaneNodesOnly(t *testing.T) {
	t.Parallel()
	required := &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
		{Key: "node-role.kubernetes.io/control-plane", Operator: corev1.NodeSelectorOpExists},
	}}}}
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
		_, _, template := workload(t, tc.values)
		test := find[*corev1.Pod](t, objects(t, render(t, tc.values)))
		for _, affinity := range []*corev1.NodeAffinity{template.Spec.Affinity.NodeAffinity, test.Spec.Affinity.NodeAffinity} {
			assert.Equal(t, tc.required, affinity.RequiredDuringSchedulingIgnoredDuringExecution, name)
			assert.Equal(t, tc.required == nil, len(affinity.PreferredDuringSchedulingIgnoredDuringExecution) > 0, name)
		}
	}
}

func args(t *testing.T, values map[string]any) []string {
	t.Helper()
	_, _, pod := workload(t, values)
	return pod.Spec.Containers[0].Args
}

// Nobody needs extraArgs for a setting of ours.
func TestEachFlagOfOursHasAValue(t *testing.T) {
	t.Parallel()
	var given []string
	for _, values := range valueSets(t) {
		given = append(given, args(t, values)...)
	}
	var sections cliflag.NamedFlagSets
	ours := provider.DefaultOptions()
	flags := sections.FlagSet("cloudstack")
	ours.AddFlags(flags)
	flags.VisitAll(func(f *pflag.Flag) {
		assert.True(t, slices.ContainsFunc(given, func(arg string) bool { return strings.HasPrefix(arg, "--"+f.Name+"=") }), "no value set of ci/ gives --%s", f.Name)
	})
}

func TestImageReference(t *testing.T) {
	t.Parallel()
	const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for want, image := range map[string]map[string]any{
		"ghcr.io/csccm/cloudstack-ccm:" + load(t).AppVersion():                {},
		"ghcr.io/csccm/cloudstack-ccm:v9":                                     {"tag": "v9"},
		"ghcr.io/csccm/cloudstack-ccm:v9_b":                                   {"tag": "v9+b"},
		"ghcr.io/csccm/cloudstack-ccm:" + load(t).AppVersion() + "@" + digest: {"digest": digest},
		"x.org:5000/a:v9@" + digest:                                           {"repository": "x.org:5000/a", "tag": "v9", "digest": digest},
	} {
		assert.Equal(t, want, deployment(t, map[string]any{"image": image}).Spec.Template.Spec.Containers[0].Image)
	}
}

func TestPermissionsShrinkWithTheControllers(t *testing.T) {
	t.Parallel()
	const (
		node      = "cloud-node-controller"
		lifecycle = "cloud-node-lifecycle-controller"
		service   = "service-lb-controller"
	)
	always := []string{
		" events create", " events patch",
		" nodes get", " nodes list", " nodes watch",
	}
	services := []string{
		" services get", " services list", " services watch", " services patch",
		" services/status patch", "kube-system namespaces get",
		"discovery.k8s.io endpointslices list", "discovery.k8s.io endpointslices watch",
	}
	initialise := []string{" nodes update", " nodes patch", " nodes/status patch"}
	for name, tc := range map[string]struct {
		controllers []any
		want        [][]string
	}{
		"all":       {nil, [][]string{always, services, initialise, {" nodes delete"}}},
		"node":      {[]any{node}, [][]string{always, initialise}},
		"lifecycle": {[]any{lifecycle}, [][]string{always, {" nodes patch", " nodes delete"}}},
		"service":   {[]any{service}, [][]string{always, services}},
		"nodes":     {[]any{node, lifecycle}, [][]string{always, initialise, {" nodes delete"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			values := map[string]any{}
			if tc.controllers != nil {
				values["controllers"] = tc.controllers
			}
			var want, have []string
			for _, part := range tc.want {
				want = append(want, part...)
			}
			for _, rule := range find[*rbacv1.ClusterRole](t, objects(t, render(t, values))).Rules {
				have = append(have, flat(rule)...)
			}
			assert.ElementsMatch(t, want, have)
		})
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
