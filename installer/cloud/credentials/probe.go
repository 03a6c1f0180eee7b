// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"context"
	"errors"
	"fmt"

	"github.com/csccm/csccm/pkg/cloudstack"
)

// Prober is the part of *cloudstack.Client that a probe calls.
type Prober interface {
	Capabilities(ctx context.Context) (*cloudstack.Capabilities, error)
}

// ProbeKeys are for a client that only has to find out who answers: a CloudStack refuses them.
var ProbeKeys = Keys{APIKey: "probe", SecretKey: "probe"}

// Probe reports what answers at a URL that is no CloudStack; nil for a CloudStack.
func Probe(ctx context.Context, apiURL string, api Prober) error {
	_, err := api.Capabilities(ctx)
	var answer *cloudstack.Error
	switch {
	case err == nil, cloudstack.IsKind(err, cloudstack.KindAuth), cloudstack.IsKind(err, cloudstack.KindNotPermitted):
		return nil
	case errors.As(err, &answer):
		return fmt.Errorf("no CloudStack API answers at %s: %s", apiURL, answer.Text)
	}
	return err
}

// CheckKeys asks CloudStack whether it takes keys. It refuses nothing that only the role lacks.
func CheckKeys(ctx context.Context, apiURL string, api Prober) error {
	v := &Verified{}
	capabilities, err := api.Capabilities(ctx)
	return v.takesKeys(Want{APIURL: apiURL}, capabilities, err)
}
