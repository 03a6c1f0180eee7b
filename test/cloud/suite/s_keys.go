// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"bytes"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/pkg/cloudstack/cloudconfig"
	"github.com/csccm/csccm/test/cloud/api"
	"github.com/csccm/csccm/test/internal/must"
)

// rotateKeys rotates twice; the keys of before are revoked, and the controller works on. Installing the same again changes nothing.
func rotateKeys(e *env) string {
	if e.installedBy == byKeys {
		must.OK(cannot("the controller has the keys of the suite's own user"))
	}
	for i := range 2 {
		before := e.keysInSecret()
		e.csccm(append([]string{"rotate-keys", "--yes"}, e.adminFlags(e.Who)...)...)
		must.Be(before.APIKey != e.keysInSecret().APIKey, "the Secret has the same key as before")
		e.until("the old keys to be refused", func() {
			_, err := api.New(e.suiteURL, before).Call(e.ctx, "listZones", nil)
			must.Be(api.Code(err) == 401, "the answer is not 401: %v", err)
		})
		name := fmt.Sprintf("web%d", i)
		e.serves(e.served(name), "80")
		e.remove(name)
	}
	last := e.keysInSecret()
	e.install(e.installedBy)
	must.Be(e.keysInSecret().APIKey == last.APIKey, "the same install again has changed the keys")
	return "twice; old keys refused, Services made with the new ones; the same install again keeps them"
}

// keysInSecret are the controller's.
func (e *env) keysInSecret() api.Credentials {
	s := must.Get(e.cluster.Client.CoreV1().Secrets(metav1.NamespaceSystem).Get(e.ctx, secretName, metav1.GetOptions{}))
	c := must.Get(cloudconfig.Parse(bytes.NewReader(s.Data["cloud-config"])))
	return api.Credentials{APIKey: c.APIKey, SecretKey: c.SecretKey}
}
