// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"cmp"
	"context"
	_ "embed" // for the manifest of the probe Pod
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	"sigs.k8s.io/yaml"

	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/poll"
)

// DefaultProbeImage contains the programs that the script of probe.yaml needs.
const DefaultProbeImage = "docker.io/library/busybox:1.37"

// ProbeOptions are the settings of probe Pods. They run on nodes whose kubelet flags cannot be read in any other way.
type ProbeOptions struct {
	Image string
	Clock clock.Clock // nil means the real clock
}

const (
	sourceProbe = "probe Pod"
	probePrefix = "csccm-kubelet-probe-"
	probeLimit  = 60 * time.Second // for one Pod, including the image pull; same as in probe.yaml
	probePoll   = 500 * time.Millisecond
)

//go:embed probe.yaml
var probeManifest []byte

// probePod returns the probe Pod for one node.
func probePod(namespace, node, image string) *corev1.Pod {
	pod := &corev1.Pod{}
	if err := yaml.UnmarshalStrict(probeManifest, pod); err != nil {
		panic(err) // a test parses it
	}
	pod.Namespace, pod.Name, pod.Spec.NodeName = namespace, probePrefix+rand.String(8), node
	pod.Spec.Containers[0].Image = image
	return pod
}

// probe runs one Pod and deletes it, even if ctx ends before the Pod.
func probe(ctx context.Context, c *cluster.Cluster, o ProbeOptions, node string) Evidence {
	pods := c.Kube.CoreV1().Pods(c.Namespace)
	pod, err := pods.Create(ctx, probePod(c.Namespace, node, cmp.Or(o.Image, DefaultProbeImage)),
		metav1.CreateOptions{})
	if err != nil {
		return unreadable.at(sourceProbe, c.Explain(err).Error())
	}
	defer removeProbe(ctx, c.Kube, pod)

	var a Evidence
	ended, err := poll.Until(ctx, cmp.Or[clock.Clock](o.Clock, clock.RealClock{}), probePoll, probeLimit,
		func() (ended bool, err error) {
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

	return timedOut.at(sourceProbe, cmp.Or(cluster.PodProblem(pod), "phase "+string(pod.Status.Phase)))
}

// removeProbe deletes the Pod even if ctx is cancelled, for example by ^C.
func removeProbe(ctx context.Context, kube kubernetes.Interface, pod *corev1.Pod) {
	const enough = 10 * time.Second
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), enough)
	defer cancel()
	_ = kube.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{})
}

// readProbe returns the result of a probe Pod; ended is false if the Pod still runs.
func readProbe(pod *corev1.Pod) (_ Evidence, ended bool) {
	why := strings.TrimSpace(pod.Status.Reason + " " + pod.Status.Message)
	for _, status := range pod.Status.ContainerStatuses {
		if t := status.State.Terminated; t != nil {
			if pod.Status.Phase == corev1.PodSucceeded {
				return parseProbe(t.Message), true
			}
			why = fmt.Sprintf("exit code %d (%s)", t.ExitCode, t.Reason)
		}
	}
	return unreadable.at(sourceProbe, "it failed: "+why), pod.Status.Phase == corev1.PodFailed
}

// parseProbe parses the output of the script, which has the flag as --flag=value or --flag value. A missing
// --cloud-provider means that the kubelet runs without a cloud provider.
func parseProbe(text string) Evidence {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if lines[len(lines)-1] != "kubelet found: yes" {
		return unreadable.at(sourceProbe, "no process is named kubelet (k3s runs the kubelet in its own process)")
	}
	value, _ := cluster.Argument(lines[:len(lines)-1], flagCloudProvider)
	return fromFlags(sourceProbe, map[string]string{flagCloudProvider: value})
}
