// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/kube/cluster"
)

// DefaultProbeImage contains the programs that probeScript needs.
const DefaultProbeImage = "docker.io/library/busybox:1.37"

// ProbeOptions are the settings of probe Pods, which run on nodes whose kubelet's flags cannot be found otherwise.
type ProbeOptions struct {
	Image string
	Clock clock.Clock // nil means the real clock
}

// probeScript reads the command line of the process named kubelet and writes the relevant flag to the termination
// message, which the Pod's status shows. Every user may read /proc/PID/cmdline, so the Pod needs hostPID but no
// privileges.
const probeScript = `found=no
for p in /proc/[0-9]*; do
  [ "$(cat $p/comm 2>/dev/null)" = kubelet ] || continue
  found=yes
  tr '\000' '\n' <$p/cmdline | grep -A1 -E '^--?cloud-provider(=|$)' >>/dev/termination-log
done
echo "kubelet found: $found" >>/dev/termination-log`

const (
	sourceProbe = "probe Pod"
	probePrefix = "csccm-kubelet-probe-"
	probeLimit  = 60 * time.Second // for one Pod, including the image pull
	probePoll   = 500 * time.Millisecond
	nobody      = int64(65534)
)

// probePod returns the probe Pod for one node.
func probePod(namespace, node, image string) *corev1.Pod {
	no, yes, user, seconds, zero := false, true, nobody, int64(probeLimit/time.Second), int64(0)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: probePrefix + rand.String(8), Namespace: namespace,
			Labels: map[string]string{"app.kubernetes.io/name": "csccm-kubelet-probe", "app.kubernetes.io/managed-by": "csccm"},
		},
		Spec: corev1.PodSpec{
			NodeName: node, HostPID: true, RestartPolicy: corev1.RestartPolicyNever, ActiveDeadlineSeconds: &seconds,
			TerminationGracePeriodSeconds: &zero, AutomountServiceAccountToken: &no, EnableServiceLinks: &no,
			Tolerations:     []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			SecurityContext: &corev1.PodSecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
			Containers: []corev1.Container{{
				Name: "probe", Image: image, Command: []string{"sh", "-c", probeScript},
				SecurityContext: &corev1.SecurityContext{
					RunAsUser: &user, RunAsGroup: &user, RunAsNonRoot: &yes, AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes,
					Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				},
			}},
		},
	}
}

// probe runs one Pod and deletes it, even if ctx ends before the Pod.
func probe(ctx context.Context, c *cluster.Cluster, o ProbeOptions, node string) Evidence {
	pods := c.Kube.CoreV1().Pods(c.Namespace)
	pod, err := pods.Create(ctx, probePod(c.Namespace, node, cmp.Or(o.Image, DefaultProbeImage)), metav1.CreateOptions{})
	if err != nil {
		return unreadable.at(sourceProbe, c.Explain(err).Error())
	}
	defer removeProbe(ctx, c.Kube, pod)
	var a Evidence
	ended, err := engine.Poll(ctx, cmp.Or[clock.Clock](o.Clock, clock.RealClock{}), probePoll, probeLimit, func() (ended bool, err error) {
		now, err := pods.Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil {
			return false, c.Explain(err)
		}
		pod = now
		a, ended = readProbe(pod)
		return ended, nil
	})
	switch {
	case ended:
		return a
	case ctx.Err() != nil:
		return timedOut.at(sourceProbe, "")
	case err != nil:
		return unreadable.at(sourceProbe, err.Error())
	}
	return timedOut.at(sourceProbe, cmp.Or(cluster.PodWaits(pod), "phase "+string(pod.Status.Phase)))
}

// removeProbe deletes the Pod even if ctx is cancelled, for example by ^C.
func removeProbe(ctx context.Context, kube kubernetes.Interface, pod *corev1.Pod) {
	const enough = 10 * time.Second
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), enough)
	defer cancel()
	_ = kube.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{})
}

// readProbe reads a Pod that has ended.
func readProbe(pod *corev1.Pod) (_ Evidence, ended bool) {
	why := strings.TrimSpace(pod.Status.Reason + " " + pod.Status.Message)
	for i := range pod.Status.ContainerStatuses {
		if t := pod.Status.ContainerStatuses[i].State.Terminated; t != nil {
			if pod.Status.Phase == corev1.PodSucceeded {
				return parseProbe(t.Message), true
			}
			why = fmt.Sprintf("exit code %d (%s)", t.ExitCode, t.Reason)
		}
	}
	return unreadable.at(sourceProbe, "it failed: "+why), pod.Status.Phase == corev1.PodFailed
}

// parseProbe parses the output of probeScript: the flag in either of its forms. A missing --cloud-provider means that the
// kubelet runs without a cloud provider.
func parseProbe(text string) Evidence {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if lines[len(lines)-1] != "kubelet found: yes" {
		return unreadable.at(sourceProbe, "no process is named kubelet (k3s runs the kubelet in its own process)")
	}
	value, _ := cluster.Argument(lines[:len(lines)-1], flagCloudProvider)
	return fromFlags(sourceProbe, map[string]string{flagCloudProvider: value})
}
