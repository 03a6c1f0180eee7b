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
	d := newDirect(t, 2)
	d.register(t, 1, 1, nil)
	p := d.controller(t, "ccm-a", "--leader-elect=false", "--node-status-update-frequency=1s")
	d.initialised(t, 1, limit)
	file := filepath.Join(d.dir, "ccm-a", "cloud-config")
	next, err := d.cloud.Config("ccm-b")
	if err != nil {
		t.Fatal(err)
	}
	right := string(next.Render())
	next.SecretKey = "wrong-secret-of-the-test"
	if err := os.WriteFile(file, next.Render(), 0o600); err != nil {
		t.Fatal(err)
	}
	d.says(t, p, "those in use are kept")
	d.cloud.Ledger().Reset()
	d.register(t, 2, 2, nil)
	d.initialised(t, 2, limit) // by the old key
	if err := os.WriteFile(file, []byte(right), 0o600); err != nil {
		t.Fatal(err)
	}
	d.says(t, p, "are in use")
	d.cloud.Ledger().Reset()
	wait(t, limit, "a call with the new key", func(context.Context) error {
		for _, c := range d.cloud.Ledger().Calls() {
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
	old, err := d.cloud.Config("ccm-a")
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
	b := newBed(t, nil)
	b.join(t, cp1, worker1)
	b.secret(t, string(b.config(t).Render()))
	b.install(t, embedded(t), nil)
	b.balanced(t, "before", 80)
	b.address(t, "before")
	pods := b.controllerPods(t)
	b.cloud.Ledger().Reset()
	out, code := b.csccm(t, adminPassword+"\n", "rotate-keys", "--admin-user", "admin", "--admin-password-stdin", "--yes")
	if code != 0 || !strings.Contains(out, "worthless") {
		t.Fatalf("rotate-keys ended with %d:\n%s", code, out)
	}
	t.Logf("csccm rotate-keys says:\n%s", out)
	b.balanced(t, "after", 81)
	ip := b.address(t, "after")
	b.wantRules(t, ip, "81:demo-worker-1")
	if now := b.controllerPods(t); !slices.Equal(pods, now) {
		t.Errorf("Pods were %v and are %v", pods, now)
	}
	callers := map[string]int{}
	for _, c := range b.cloud.Ledger().Calls() {
		callers[c.Caller]++
		if c.Status == http.StatusUnauthorized {
			t.Errorf("call %d, %s, was refused", c.Seq, c.Command)
		}
		if c.Caller == owner && callers[owner+"-2"] > 0 && c.Command == "associateIpAddress" {
			t.Errorf("call %d, %s, came with the old keys", c.Seq, c.Command)
		}
	}
	t.Logf("calls by caller: %v", callers)
	secret, err := b.Client.CoreV1().Secrets("kube-system").Get(t.Context(), secretName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	noSecrets(t, b, out, string(secret.Data[secretKey]))
}
