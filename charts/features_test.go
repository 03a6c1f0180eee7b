// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package charts_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/csccm/csccm/charts"
)

type values = map[string]any

// Each value that reaches the controller by an argument.
func TestValuesBecomeArguments(t *testing.T) {
	t.Parallel()
	usual := args(t, nil)
	for want, v := range map[string]values{
		"--controllers=cloud-node-controller,service-lb-controller": {"controllers": []any{"cloud-node-controller", "service-lb-controller"}},
		"--provider-id-format=cloudstack":                           {"providerIDFormat": "cloudstack"},
		"--instance-type-format=upstream":                           {"instanceTypeFormat": "upstream"},
		"--drift-period=1m30s":                                      {"driftPeriod": "1m30s"},
		"--drift-period=0":                                          {"driftPeriod": "0"},
		"--manage-network-acls=false":                               {"loadBalancers": values{"manageNetworkACLs": false}},
		"--load-balancer-policy=dry-run":                            {"loadBalancers": values{"policy": "dry-run"}},
		"--clean-orphans=true":                                      {"loadBalancers": values{"cleanOrphans": true}},
		"--node-internal-cidrs=10.0.0.0/8,fd00::/8":                 {"nodes": values{"internalCIDRs": []any{"10.0.0.0/8", "fd00::/8"}}},
		"--node-external-cidrs=203.0.113.0/24":                      {"nodes": values{"externalCIDRs": []any{"203.0.113.0/24"}}},
		"--node-labels=host,offering":                               {"nodes": values{"labels": []any{"host", "offering"}}},
		"--node-label-tag-prefix=k8s:":                              {"nodes": values{"labelTagPrefix": "k8s:"}},
		"--node-deletion-limit=100":                                 {"nodes": values{"deletionLimit": 100}},
		"--ca-bundle=/etc/cloudstack-ca/ca.crt":                     {"caBundle": values{"configMapName": "ca"}},
		"--secure-port=10300":                                       {"securePort": 10300},
		"--bind-address=$(POD_IP)":                                  {"bindAddress": "$(POD_IP)"},
		"--cluster-id=a":                                            {"clusterID": "a"},
		"--cluster-name=a":                                          {"clusterName": "a"},
		"--leader-elect-resource-name=a":                            {"leaderElection": values{"leaseName": "a"}},
		"--leader-elect-resource-namespace=a":                       {"leaderElection": values{"leaseNamespace": "a"}},
		"--logging-format=json":                                     {"logFormat": "json"},
		"--v=4":                                                     {"logVerbosity": 4},
		"--profiling=false":                                         {"extraArgs": []any{"--profiling=false"}},
	} {
		have := args(t, v)
		assert.Contains(t, have, want)
		assert.NotContains(t, usual, want, "it is not the default")
		name, _, _ := strings.Cut(want, "=")
		var times int
		for _, arg := range have {
			if strings.HasPrefix(arg, name+"=") {
				times++
			}
		}
		assert.Equal(t, 1, times, want)
	}
}

func TestNetworkOfThePods(t *testing.T) {
	t.Parallel()
	pod := func(v values) corev1.PodSpec { _, _, p := workload(t, v); return p.Spec }
	host := pod(nil)
	assert.True(t, host.HostNetwork)
	assert.Equal(t, corev1.DNSDefault, host.DNSPolicy)
	own := pod(values{"hostNetwork": false, "hostAliases": []any{values{"ip": "10.0.0.10", "hostnames": []any{"cs.example.org"}}}})
	assert.False(t, own.HostNetwork)
	assert.Equal(t, corev1.DNSClusterFirst, own.DNSPolicy)
	assert.Equal(t, []corev1.HostAlias{{IP: "10.0.0.10", Hostnames: []string{"cs.example.org"}}}, own.HostAliases)
	assert.Equal(t, corev1.DNSNone, pod(values{"dnsPolicy": "None"}).DNSPolicy)

	env := map[string]string{}
	for _, e := range pod(values{
		"apiServer": values{"host": "api.example.org", "port": 443},
		"proxy":     values{"http": "http://p:1", "https": "http://p:2", "noProxy": "10.0.0.0/8"},
	}).Containers[0].Env {
		env[e.Name] = e.Value
	}
	assert.Equal(t, map[string]string{
		"POD_IP": "", "KUBERNETES_SERVICE_HOST": "api.example.org", "KUBERNETES_SERVICE_PORT": "443",
		"HTTP_PROXY": "http://p:1", "HTTPS_PROXY": "http://p:2",
		"NO_PROXY": "10.0.0.0/8,$(KUBERNETES_SERVICE_HOST),localhost,127.0.0.1,::1,.svc,.cluster.local",
	}, env)
}

// A changed Secret or ConfigMap reaches a running Pod as a file and the controller reads it again, so nothing restarts the
// Pods: no checksum, no subPath, no variable.
func TestConfigurationIsReloadedNotRestarted(t *testing.T) {
	t.Parallel()
	_, _, pod := workload(t, values{"caBundle": values{"configMapName": "ca"}})
	for key := range pod.Annotations {
		assert.NotContains(t, key, "checksum")
	}
	c := pod.Spec.Containers[0]
	for _, m := range c.VolumeMounts {
		assert.Empty(t, m.SubPath)
		assert.True(t, m.ReadOnly)
	}
	for _, e := range c.Env {
		assert.Nil(t, e.ValueFrom.SecretKeyRef)
	}
	assert.Equal(t, []string{"cloudstack-secret", "ca"}, []string{pod.Spec.Volumes[0].Secret.SecretName, pod.Spec.Volumes[1].ConfigMap.Name})
}

func TestPartsOfThePodThatUsersAdd(t *testing.T) {
	t.Parallel()
	_, _, pod := workload(t, values{
		"imagePullSecrets":  []any{values{"name": "registry"}},
		"initContainers":    []any{values{"name": "wait", "image": "x", "command": []any{"/wait"}}},
		"extraEnv":          []any{values{"name": "A", "value": "b"}},
		"extraVolumes":      []any{values{"name": "v", "emptyDir": values{}}},
		"extraVolumeMounts": []any{values{"name": "v", "mountPath": "/v"}},
		"podAnnotations":    values{"a": "b"}, "podLabels": values{"c": "d"}, "commonLabels": values{"e": "f"},
		"priorityClassName": "p", "terminationGracePeriodSeconds": 5,
	})
	assert.Equal(t, []corev1.LocalObjectReference{{Name: "registry"}}, pod.Spec.ImagePullSecrets)
	assert.Equal(t, "wait", pod.Spec.InitContainers[0].Name)
	assert.Equal(t, corev1.EnvVar{Name: "A", Value: "b"}, pod.Spec.Containers[0].Env[1])
	assert.Equal(t, "v", pod.Spec.Volumes[1].Name)
	assert.Equal(t, "/v", pod.Spec.Containers[0].VolumeMounts[1].MountPath)
	assert.Equal(t, "b", pod.Annotations["a"])
	assert.Equal(t, "d", pod.Labels["c"])
	assert.Equal(t, "f", pod.Labels["e"])
	assert.Equal(t, "p", pod.Spec.PriorityClassName)
	assert.EqualValues(t, 5, *pod.Spec.TerminationGracePeriodSeconds)
}

func TestDaemonSet(t *testing.T) {
	t.Parallel()
	all := objects(t, render(t, values{"kind": "DaemonSet"}))
	d := find[*appsv1.DaemonSet](t, all)
	for _, o := range all {
		switch o.(type) {
		case *appsv1.Deployment, *policyv1.PodDisruptionBudget:
			t.Errorf("%T beside the DaemonSet", o)
		}
	}
	terms := d.Spec.Template.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	assert.Equal(t, "node-role.kubernetes.io/control-plane", terms[0].MatchExpressions[0].Key)
	assert.Equal(t, 0, d.Spec.UpdateStrategy.RollingUpdate.MaxSurge.IntValue(), "two Pods cannot share the node's port")
	_, _, elsewhere := workload(t, values{"kind": "DaemonSet", "nodeSelector": values{"a": "b"}})
	assert.Nil(t, elsewhere.Spec.Affinity)

	// Apart from where it runs the Pod is the Deployment's.
	_, _, want := workload(t, nil)
	have := d.Spec.Template.DeepCopy()
	for _, p := range []*corev1.PodTemplateSpec{want, have} {
		p.Spec.Affinity, p.Spec.TopologySpreadConstraints = nil, nil
	}
	assert.Equal(t, want, have)
}

func TestNetworkPolicy(t *testing.T) {
	t.Parallel()
	of := func(policy values) networkingv1.NetworkPolicySpec {
		policy["enabled"] = true
		return find[*networkingv1.NetworkPolicy](t, objects(t, render(t, values{"hostNetwork": false, "networkPolicy": policy}))).Spec
	}
	open := of(values{})
	assert.Equal(t, []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}, open.PolicyTypes, "nothing is said of what the Pods reach")
	require.Len(t, open.Ingress, 1)
	assert.Equal(t, "https", open.Ingress[0].Ports[0].Port.StrVal)
	assert.Empty(t, open.Ingress[0].From)
	narrow := of(values{
		"ingressFrom": []any{values{"podSelector": values{}}},
		"egress":      []any{values{"ports": []any{values{"port": 443}}}},
	})
	assert.Len(t, narrow.Ingress[0].From, 1)
	assert.Equal(t, []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress}, narrow.PolicyTypes)
	assert.Len(t, narrow.Egress, 1)
	_, selector, _ := workload(t, nil)
	assert.Equal(t, *selector, narrow.PodSelector)
}

func TestExtraObjects(t *testing.T) {
	t.Parallel()
	var names []string
	for _, o := range objects(t, render(t, values{"extraObjects": []any{
		values{"apiVersion": "v1", "kind": "ConfigMap", "metadata": values{"name": "{{ .Release.Name }}-a"}},
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\n",
	}})) {
		if c, ok := o.(*corev1.ConfigMap); ok {
			names = append(names, c.Name)
		}
	}
	assert.Equal(t, []string{releaseName + "-a", "b"}, names)
}

// The test Pod does not disturb: other labels than the controller's, no token, as restricted.
func TestTestPod(t *testing.T) {
	t.Parallel()
	for name, v := range valueSets(t) {
		pod := find[*corev1.Pod](t, objects(t, render(t, v)))
		_, selector, _ := workload(t, v)
		assert.NotEqual(t, selector.MatchLabels["app.kubernetes.io/name"], pod.Labels["app.kubernetes.io/name"], name)
		assert.False(t, *pod.Spec.AutomountServiceAccountToken, name)
		assert.Equal(t, &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}, pod.Spec.Containers[0].SecurityContext.Capabilities, name)
		assert.Equal(t, "test", pod.Annotations["helm.sh/hook"], name)
	}
}

// Every object that has a namespace says it, so that kubectl apply of the manifest puts it there.
func TestNamespaceIsWritten(t *testing.T) {
	t.Parallel()
	cluster := []string{"ClusterRole", "ClusterRoleBinding", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
	for name, v := range valueSets(t) {
		for _, o := range objects(t, render(t, v)) {
			kind := o.GetObjectKind().GroupVersionKind().Kind
			if kind == "ConfigMap" && name == "everything" {
				continue // extraObjects are the user's
			}
			meta, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
			require.NoError(t, err)
			namespace, _ := meta["metadata"].(map[string]any)["namespace"].(string)
			if slices.Contains(cluster, kind) {
				assert.Empty(t, namespace, "%s: %s", name, kind)
			} else {
				assert.NotEmpty(t, namespace, "%s: %s", name, kind)
			}
		}
	}
}

// The notes name the objects that are there, whatever the values.
func TestNotes(t *testing.T) {
	t.Parallel()
	c, err := loader.LoadDir(charts.Name)
	require.NoError(t, err)
	for name, tc := range map[string]struct {
		values values
		want   []string
	}{
		"defaults": {nil, []string{
			"installed as Deployment kube-system/cloudstack-cloud-controller-manager.", "kubectl -n kube-system get secret cloudstack-secret\n",
			"kubectl -n kube-system rollout status deployment/cloudstack-cloud-controller-manager\n", "helm test -n kube-system cloudstack-ccm --logs\n",
			"csccm doctor -n kube-system\n",
		}},
		"DaemonSet": {values{"kind": "DaemonSet", "existingSecret": values{"name": "other", "key": "k"}}, []string{
			"installed as DaemonSet kube-system/", "the Secret other (key k) in namespace", "rollout status daemonset/cloudstack-cloud-controller-manager\n",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			install := action.NewInstall(&action.Configuration{})
			install.DryRun, install.ClientOnly = true, true
			install.ReleaseName, install.Namespace = releaseName, namespace
			install.KubeVersion = &chartutil.KubeVersion{Version: kubeVersion, Major: "1", Minor: "37"}
			rel, err := install.Run(c, tc.values)
			require.NoError(t, err)
			for _, want := range tc.want {
				assert.Contains(t, rel.Info.Notes, want)
			}
		})
	}
}
