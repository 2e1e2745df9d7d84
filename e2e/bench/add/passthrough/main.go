// Command passthrough is the least that a chained CNI plugin written in Go can be: what its ADD costs is the price of being called at
// all, against which holdfast-cni is measured.
package main

import (
	"encoding/json"
	"errors"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	"github.com/containernetworking/cni/pkg/version"
)

func main() {
	succeed := func(*skel.CmdArgs) error { return nil }
	skel.PluginMainFuncs(skel.CNIFuncs{Add: add, Del: succeed, Check: succeed, GC: succeed, Status: succeed}, version.All, "passthrough")
}

func add(args *skel.CmdArgs) error {
	var conf types.PluginConf
	if err := json.Unmarshal(args.StdinData, &conf); err != nil {
		return err
	}
	if err := version.ParsePrevResult(&conf); err != nil {
		return err
	}
	if conf.PrevResult == nil {
		return errors.New("there is no prevResult")
	}
	return types.PrintResult(conf.PrevResult, conf.CNIVersion)
}
