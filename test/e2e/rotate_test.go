// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/cloudstack/cloudconfig"
	"github.com/csccm/csccm/test/plane"
	"github.com/csccm/csccm/test/testenv"
)

const readerImage = "registry.example/csccm/reader"

// TestRotateKeysWithAnotherUser rotates the keys beside a program that reads them once at its start. The old pair stays until
// that program is restarted, and ends with --finish.
func TestRotateKeysWithAnotherUser(t *testing.T) {
	t.Parallel()
	p := borrow(t, plane.Options{NodeGrace: defaultGrace})
	e := newReaderEnv(t, p, readerImage)
	e.join(t, cp1, joined(worker1))
	e.csccm(t, adminPassword+"\n", installArgs(e, "--set", "replicaCount=1")...).want(t, 0)
	e.startReader(t)
	old := e.inUse(t)
	rotate := func(more ...string) []string {
		return append([]string{"rotate-keys", "--admin-user", "admin", "--admin-password-stdin"}, more...)
	}

	e.csccm(t, adminPassword+"\n", rotate("--dry-run")...).want(t, 0, "DaemonSet kube-system/reader (1 Pod, Secret cloudstack-secret): must be restarted")
	e.csccm(t, adminPassword+"\n", rotate("--yes")...).want(t, 0, `the keys of user "kubeadmin" still work`, "DaemonSet kube-system/reader: 1 Pod read Secret", "csccm rotate-keys --context")
	if now := e.inUse(t); now.APIKey == old.APIKey {
		t.Fatal("the Secret holds the old keys")
	}
	e.answers(t, old, true)
	e.calls(t, "kubeadmin")

	e.csccm(t, adminPassword+"\n", rotate("--finish", "--yes")...).want(t, 3, "the old keys are still in use: DaemonSet kube-system/reader", "kubectl rollout restart")
	e.answers(t, old, true)
	e.restartReader(t)
	e.csccm(t, adminPassword+"\n", rotate("--finish", "--yes")...).want(t, 0, "the old keys of kubeadmin are revoked")
	e.answers(t, old, false)
	e.calls(t, "kubeadmin-2")

	// A copy in another namespace keeps the old pair, and is named.
	now := e.inUse(t)
	_, err := e.Client.CoreV1().Secrets(metav1.NamespaceDefault).Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "autoscaler"}, Data: map[string][]byte{"cloud.conf": now.Render()},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s := e.csccm(t, adminPassword+"\n", rotate("--yes", "-o", "json")...).want(t, 0)
	var result struct {
		Ended, KeptFor []string
	}
	if err := json.Unmarshal([]byte(s.out), &result); err != nil {
		t.Fatal(err)
	}
	if len(result.Ended) > 0 || len(result.KeptFor) != 2 || !strings.Contains(result.KeptFor[1], "Secret default/autoscaler holds a copy") {
		t.Errorf("the result is %s", s.out)
	}
	e.answers(t, now, true)
	if err := e.Client.CoreV1().Secrets(metav1.NamespaceDefault).Delete(t.Context(), "autoscaler", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	e.restartReader(t)
	e.csccm(t, adminPassword+"\n", rotate("--finish", "--yes")...).want(t, 0, "revoked")
	e.answers(t, now, false)
	e.calls(t, "kubeadmin")
}

// newReaderEnv is a cluster whose nodes have the program that reads the keys once, as an image.
func newReaderEnv(t *testing.T, p *plane.Plane, image string) *clusterEnv {
	t.Helper()
	program := filepath.Join(t.TempDir(), "reader")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false", "-o", program, "./testdata/reader").CombinedOutput(); err != nil { // #nosec G204 -- a path of the test
		t.Fatalf("%v\n%s", err, out)
	}
	cloud, err := testenv.StartCloudStack(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cloud.Stop)
	nodes, err := testenv.NewCluster(p, testenv.ClusterOptions{Controller: programs.Controller, Heartbeat: time.Second, Images: map[string]string{image: program}})
	if err != nil {
		t.Fatal(err)
	}
	return newClusterEnvOf(t, p, cloud, nodes)
}

// startReader runs the program that reads the keys once, and waits until it works.
func (e *clusterEnv) startReader(t *testing.T) {
	t.Helper()
	labels := map[string]string{"app": "reader"}
	_, err := e.Client.AppsV1().DaemonSets(metav1.NamespaceSystem).Create(t.Context(), &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"},
		Spec: appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec: corev1.PodSpec{
				NodeSelector: map[string]string{corev1.LabelHostname: worker1.Name},
				Containers: []corev1.Container{{
					Name: "reader", Image: readerImage + ":v1", Command: []string{"/reader"}, Args: []string{"--cloud-config=/keys/" + secretKey, "--listen=$(POD_IP):8090"},
					Env:            []corev1.EnvVar{{Name: "POD_IP", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}}}},
					VolumeMounts:   []corev1.VolumeMount{{Name: "keys", MountPath: "/keys", ReadOnly: true}},
					ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(8090)}}, PeriodSeconds: 1},
				}},
				Volumes: []corev1.Volume{{Name: "keys", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: secretName}}}},
			},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	e.calls(t, "kubeadmin")
}

// restartReader does what csccm tells, and waits until the program works with the new keys.
func (e *clusterEnv) restartReader(t *testing.T) {
	t.Helper()
	for _, args := range [][]string{{"restart", "daemonset/reader"}, {"status", "daemonset/reader", "--timeout=60s"}} {
		if out, err := e.kubectl(t.Context(), "", append([]string{"-n", "kube-system", "rollout"}, args...)...); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
}

// calls waits until the program has called CloudStack with the keys of a user, and is ready.
func (e *clusterEnv) calls(t *testing.T, user string) {
	t.Helper()
	count := func() int { return len(e.cloud.Ledger().Find("listSSHKeyPairs", user)) }
	before := count()
	e.eventually(t, "a call of "+user, func(ctx context.Context) error {
		d, err := e.Client.AppsV1().DaemonSets(metav1.NamespaceSystem).Get(ctx, "reader", metav1.GetOptions{})
		if err != nil || d.Status.NumberReady != 1 {
			return errors.Join(err, errors.New("it is not ready"))
		}
		if count() == before {
			return errors.New("there is none")
		}
		return nil
	})
}

// inUse returns the cloud-config of the Secret.
func (e *clusterEnv) inUse(t *testing.T) *cloudstack.Config {
	t.Helper()
	s, err := e.Client.CoreV1().Secrets(metav1.NamespaceSystem).Get(t.Context(), secretName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := cloudconfig.Parse(bytes.NewReader(s.Data[secretKey]))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// answers checks whether CloudStack takes keys.
func (e *clusterEnv) answers(t *testing.T, cfg *cloudstack.Config, want bool) {
	t.Helper()
	client, err := cloudstack.NewClient(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	_, err = client.ListVirtualMachines(t.Context(), cloudstack.VMQuery{})
	if works := err == nil; works != want {
		t.Fatal(fmt.Errorf("the keys work: %v; want %v: %w", works, want, err))
	}
}
