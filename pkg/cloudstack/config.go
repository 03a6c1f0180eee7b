// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import "github.com/csccm/csccm/pkg/cloudstack/cloudconfig"

const apiPath = cloudconfig.APIPath

// Config is the cloud-config.
type Config = cloudconfig.Config
