// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"slices"
	"strings"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/cloudstack/cloudconfig"
	"github.com/csccm/csccm/pkg/ini"
)

// known are the keys that the driver knows.
var known = []string{"api-url", "api-key", "secret-key", "project-id", "ssl-no-verify", "zone"}

// CloudConfig returns the driver's cloud-config, made of the controller's. The driver ends at its start if it does not know
// a key in its file. The controller's own file may have such keys, and gets one when keys are rotated.
func CloudConfig(c *cloudstack.Config) []byte {
	own := cloudconfig.Default()
	own.APIURL, own.APIKey, own.SecretKey = c.APIURL, c.APIKey, c.SecretKey
	own.ProjectID, own.SSLNoVerify = c.ProjectID, c.SSLNoVerify
	return own.Render()
}

// Unknown returns the keys in a cloud-config with which the driver ends.
func Unknown(file string) []string {
	var out []string
	for _, l := range ini.Scan(file) {
		if name := strings.ToLower(l.Name); (l.Kind == ini.Key || l.Kind == ini.Bare) && !slices.Contains(known, name) {
			out = append(out, name)
		}
	}
	return out
}
