// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"io"

	"github.com/csccm/csccm/pkg/cloudstack/cloudconfig"
)

const apiPath = cloudconfig.APIPath

// Config is the cloud-config.
type Config = cloudconfig.Config

// ConfigError is a configuration that must be corrected: no call was sent.
type ConfigError = cloudconfig.Error

// DefaultConfig is cloudconfig.Default.
func DefaultConfig() Config { return cloudconfig.Default() }

// ParseConfig is cloudconfig.Parse.
func ParseConfig(r io.Reader) (*Config, error) { return cloudconfig.Parse(r) }
