// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestKeysRotateWithoutARestart changes the mounted file under a running controller: first to a key that is
// wrong, then to one that is right.
func TestKeysRotateWithoutARestart(t *testing.T) {
	t.Parallel()
	env := newDirectEnv(t, 2)
	env.register(t, 1, 1, nil)
	p := env.controller(t, "ccm-a", "--leader-elect=false", "--node-status-update-frequency=1s")
	env.initialised(t, 1, limit)
	file := filepath.Join(env.dir, "ccm-a", "cloud-config")
	next, err := env.Cloud.Config("ccm-b")
	if err != nil {
		t.Fatal(err)
	}
	right := string(next.Render())
	next.SecretKey = "wrong-secret-of-the-test"
	if err := os.WriteFile(file, next.Render(), 0o600); err != nil {
		t.Fatal(err)
	}
	env.says(t, p, "those in use are kept")
	env.Cloud.Ledger().Reset()
	env.register(t, 2, 2, nil)
	env.initialised(t, 2, limit) // by the old key
	if err := os.WriteFile(file, []byte(right), 0o600); err != nil {
		t.Fatal(err)
	}
	env.says(t, p, "are in use")
	env.Cloud.Ledger().Reset()
	wait(t, limit, "a call with the new key", func(context.Context) error {
		for _, c := range env.Cloud.Ledger().Calls() {
			if c.Caller == "ccm-a" {
				t.Fatalf("%s came with the old key", c.Command)
			}
			if c.Caller == "ccm-b" {
				return nil
			}
		}
		return errors.New("none yet")
	})
	log, err := os.ReadFile(p.Log)
	if err != nil {
		t.Fatal(err)
	}
	old, err := env.Cloud.Config("ccm-a")
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{old.APIKey, old.SecretKey, next.APIKey, next.SecretKey, "signature="} {
		if strings.Contains(string(log), secret) {
			t.Error("a key or a signature is in the log")
		}
	}
}

// TestRotateKeysWithoutARestart rotates with csccm while a controller in a Pod serves: the kubelet swaps the mounted
// Secret, the controller takes the keys over, and no call of anybody is refused before, meanwhile or after.
func TestRotateKeysWithoutARestart(t *testing.T) {
	t.Parallel()
	env := newClusterEnv(t, nil)
	env.join(t, cp1, worker1)
	env.secret(t, string(env.config(t).Render()))
	env.install(t, embedded(t), nil)
	env.balanced(t, "before", 80)
	env.address(t, "before")
	pods := env.controllerPods(t)
	env.cloud.Ledger().Reset()
	out, code := env.csccm(t, adminPassword+"\n", "rotate-keys", "--admin-user", "admin", "--admin-password-stdin", "--yes")
	if code != 0 || !strings.Contains(out, "worthless") {
		t.Fatalf("rotate-keys ended with %d:\n%s", code, out)
	}
	t.Logf("csccm rotate-keys says:\n%s", out)
	env.balanced(t, "after", 81)
	ip := env.address(t, "after")
	env.wantRules(t, ip, "81:demo-worker-1")
	if now := env.controllerPods(t); !slices.Equal(pods, now) {
		t.Errorf("Pods were %v and are %v", pods, now)
	}
	callers := map[string]int{}
	for _, c := range env.cloud.Ledger().Calls() {
		callers[c.Caller]++
		if c.Status == http.StatusUnauthorized {
			t.Errorf("call %d, %s, was refused", c.Seq, c.Command)
		}
		if c.Caller == owner && callers[owner+"-2"] > 0 && c.Command == "associateIpAddress" {
			t.Errorf("call %d, %s, came with the old keys", c.Seq, c.Command)
		}
	}
	t.Logf("calls by caller: %v", callers)
	secret, err := env.Client.CoreV1().Secrets("kube-system").Get(t.Context(), secretName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	noSecrets(t, env, out, string(secret.Data[secretKey]))
}
