// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/pkg/cloudstack/cloudconfig"
	"github.com/csccm/csccm/test/cloud/api"
)

// keyScenarios are about the controller's credentials.
func keyScenarios(at string) []scenario {
	return []scenario{{name: at + ": rotate-keys", at: at, needs: []need{needAdmin}, run: rotateKeys}}
}

// rotateKeys rotates twice; the keys of before are worthless, and the controller works on. Installing the same again changes nothing.
func rotateKeys(ctx context.Context, e *env) (string, error) {
	if e.installedBy == byKeys {
		return "", cannot("the controller has the keys of the suite's own user")
	}
	admin, err := e.adminFlags(e.Who.APIKey, e.Who.SecretKey, e.Who.User, e.Who.Password, e.Who.Domain)
	if err != nil {
		return "", err
	}
	for i := range 2 {
		before, err := e.keysInSecret(ctx)
		if err != nil {
			return "", err
		}
		if _, err := e.csccm(ctx, append([]string{"rotate-keys", "--yes"}, admin...)...); err != nil {
			return "", err
		}
		after, err := e.keysInSecret(ctx)
		if err != nil {
			return "", err
		}
		if before.APIKey == after.APIKey {
			return "", errors.New("the Secret has the same key as before")
		}
		if err := e.until(ctx, "the old keys to be refused", func(ctx context.Context) error {
			if _, err := api.New(e.suiteURL, before).Call(ctx, "listZones", nil); api.Code(err) != 401 {
				return fmt.Errorf("the answer is %w", errors.Join(errors.New("not 401"), err))
			}
			return nil
		}); err != nil {
			return "", err
		}
		name := fmt.Sprintf("web%d", i)
		ip, err := e.served(ctx, name)
		if err != nil {
			return "", fmt.Errorf("after rotation %d: %w", i+1, err)
		}
		if err := e.serves(ctx, ip, "80"); err != nil {
			return "", err
		}
		if err := e.remove(ctx, name); err != nil {
			return "", err
		}
	}
	last, err := e.keysInSecret(ctx)
	if err != nil {
		return "", err
	}
	if _, err := e.install(ctx, e.installedBy); err != nil {
		return "", fmt.Errorf("the same install again: %w", err)
	}
	now, err := e.keysInSecret(ctx)
	if err == nil && now.APIKey != last.APIKey {
		err = errors.New("the same install again has changed the keys")
	}
	return "twice; old keys refused, Services made with the new ones; the same install again keeps them", err
}

// keysInSecret are the controller's.
func (e *env) keysInSecret(ctx context.Context) (api.Credentials, error) {
	s, err := e.cluster.Client.CoreV1().Secrets(metav1.NamespaceSystem).Get(ctx, secretName, metav1.GetOptions{})
	if err != nil {
		return api.Credentials{}, err
	}
	c, err := cloudconfig.Parse(bytes.NewReader(s.Data["cloud-config"]))
	if err != nil {
		return api.Credentials{}, err
	}
	return api.Credentials{APIKey: c.APIKey, SecretKey: c.SecretKey}, nil
}
