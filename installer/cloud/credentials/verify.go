// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/selftest"
)

// Verify runs the controller's self-test, and explains a failure in terms of csccm's flags. It returns the id of the
// project.
func Verify(ctx context.Context, t *selftest.Test) (project string, err error) {
	if err = explainTest(t.Config.APIURL, t.Run(ctx)); err != nil {
		return "", err
	}
	return inventory.New(t.Client, inventory.Options{ProjectID: t.Config.ProjectID}).ProjectID(ctx)
}

// explainTest converts an error of a self-test to one with a remedy.
func explainTest(apiURL string, err error) error {
	problem, ok := errors.AsType[*selftest.Problem](err)
	api, answered := errors.AsType[*cloudstack.Error](err)
	project, named := errors.AsType[*inventory.ProjectError](err)
	switch {
	case named:
		return report.Usage(
			"name the project, or its id, with --project, and make the user's account a member of it",
			"%v", project,
		)
	case !ok:
		return explain("the self-test with these keys", err)
	case errors.Is(err, selftest.ErrNoVM):
		return report.Remedied(problem,
			"name the account (--account) or the project (--project) that owns the cluster's VMs, and its "+
				"zone (--zone)")
	case errors.Is(err, selftest.ErrNoZone):
		return report.Usage(strings.Replace(problem.Remedy, "in the cloud-config", "(--zone)", 1), "%v", problem)
	case answered && api.Command == "listCapabilities" && api.Kind != cloudstack.KindAuth:
		return unanswered(apiURL, api)
	}

	fix := problem.Remedy
	if cloudstack.IsKind(err, cloudstack.KindAuth) {
		fix += "; " + newKeys
	}

	return report.Remedied(problem, fix)
}

// CheckZone returns an error if the user does not see the zone with this name or id.
func CheckZone(ctx context.Context, api *cloudapi.Client, want string) error {
	_, err := selftest.CheckZone(ctx, inventory.New(api, inventory.Options{}), want)
	return explainTest("", err)
}

// Probe returns an error if what answers at a URL is not a CloudStack API.
func Probe(ctx context.Context, apiURL string, api *cloudapi.Client) error {
	err := api.Answers(ctx)
	if answer, ok := errors.AsType[*cloudstack.Error](err); ok {
		return fmt.Errorf("no CloudStack API answers at %s: %s", apiURL, answer.Text)
	}
	return err
}

// CheckKeys returns an error if CloudStack refuses the keys. Missing permissions of the role are no error.
func CheckKeys(ctx context.Context, apiURL string, api *cloudapi.Client) error {
	t := &selftest.Test{Config: &cloudstack.Config{APIURL: apiURL}, Client: api.Client, Out: io.Discard}
	return explainTest(apiURL, t.Keys(ctx))
}
