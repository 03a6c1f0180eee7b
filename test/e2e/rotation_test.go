// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/csccm/csccm/test/plane"
)

// TestKeysRotateWithoutARestart changes the mounted file under a running controller: first to a key that is
// wrong, then to one that is right.
func TestKeysRotateWithoutARestart(t *testing.T) {
	t.Parallel()
	d := newDirect(t, 2, plane.Options{})
	d.register(t, 1, 1, nil)
	p := d.controller(t, "ccm-a", "--leader-elect=false", "--node-status-update-frequency=1s")
	d.initialised(t, 1, time.Minute)
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
	d.initialised(t, 2, time.Minute) // by the old key
	if err := os.WriteFile(file, []byte(right), 0o600); err != nil {
		t.Fatal(err)
	}
	d.says(t, p, "are in use")
	d.cloud.Ledger().Reset()
	wait(t, 2*time.Minute, "a call with the new key", func(context.Context) error {
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
