import {ask} from "./api.js";
import {LOG, command} from "./commands.js";
import {LOADING, counted, field, h, number, put, sentence, table, typedTime, zone} from "./dom.js";
import {change, saying} from "./writing.js";

const WAYS = [["earliest", "the earliest"], ["latest", "the latest"], ["time", "the first at a time"], ["offset", "an offset"], ["shift", "shifted by"]];

// Below a group: its offsets and members, to be changed. It is made once, so that what is typed stays.
export function groupChanges(context) {
  const group = context.name;
  if (!context.session.writes) return h("p", {class: "soft"}, "This page only reads. To set offsets: ",
    ...command("groups", "reset-offsets", LOG, "--group", group, "--all-topics", "--to-earliest"), ", or start the page with --allow-writes.");
  const said = saying(), plan = h("div", {}), label = h("span", {});
  const asked = () => {
    const [places, way, value] = ["places", "way", "value"].map((name) => form.elements[name].value);
    return {group, places, way, value: way === "time" ? typedTime(value) : value};
  };
  async function show(event) {
    event.preventDefault();
    put(plan, LOADING);
    try {
      const {rows} = await ask("group-plan", asked());
      const moved = rows.filter((row) => row.from !== row.to);
      put(plan, table(`Plan: ${counted(moved.length, "partition")} of ${number(rows.length)} would change`, [["Topic", (one) => one.topic, "", "topic"], ["Partition", (one) => number(one.partition), "n", "partition"],
        ["Committed", (one) => number(one.from), "n", "from"], ["New", (one) => number(one.to), "n", "to"],
        ["Change", (one) => one.from === null ? "new" : one.from === one.to ? "none" : `${one.to > one.from ? "+" : "−"}${number(Math.abs(one.to - one.from))}`, "n", "change", (one) => one.from === null ? null : one.to - one.from]], rows),
      h("p", {}, moved.length ? h("button", {type: "button", class: "danger", onclick: () => change(said, context, {
        area: "group-reset", fields: {group, rows: moved}, what: `the reset of group ${group}`, title: "Set these offsets?", yes: "Set the offsets",
        text: `Group ${group} reads on at other offsets in ${counted(moved.length, "partition")}: what it goes back to is read again, what it goes past is not read.`,
        done: () => put(plan)})}, "Set these offsets …") : "Nothing would change."));
    } catch (error) { put(plan, h("p", {class: "error", role: "alert"}, sentence(error.message))); }
  }
  const form = h("form", {class: "bar", onsubmit: show, oninput: () => put(plan)},
    field("New offsets", "way", {}, WAYS),
    field(label, "value", {autocomplete: "off", placeholder: "2026-11-21T16:30, 42 or -10"}),
    field("Topics or partitions", "places", {autocomplete: "off", placeholder: "all; or orders bills:0,1"}),
    h("button", {type: "submit"}, "Show what changes"));
  const forget = h("button", {type: "button", class: "danger", onclick: () => change(said, context, {
    area: "group-forget", fields: {group, places: form.elements.places.value}, what: `the deletion of offsets of group ${group}`,
    title: "Delete offsets?", yes: "Delete the offsets", typed: group,
    text: `Group ${group} forgets what it has committed in ${form.elements.places.value || "no partition, for none is named above"}. Its consumers begin there by auto.offset.reset.`})}, "Delete offsets …");
  const drop = h("button", {type: "button", class: "danger", onclick: () => change(said, context, {
    area: "group-delete", fields: {group}, what: `the deletion of group ${group}`, title: "Delete this group?", yes: "Delete the group", typed: group,
    text: `Group ${group} and all its committed offsets are forgotten.`, done: () => { box.gone = true; put(box, said); }})}, "Delete group …");
  const box = h("section", {"aria-label": "Changes of this group"}, h("h2", {}, "Change"), said, form, plan, h("p", {class: "row"}, forget, drop));
  box.said = said;
  box.show = () => put(label, `Time (${zone()}), offset or count`);
  return box;
}

// A button for each member.
export function removing(context, {said}) {
  const group = context.name;
  return (one) => h("button", {type: "button", class: "danger", "data-key": `m${one.member}`, "aria-label": `Remove member ${one.client || one.member}`, onclick: () => change(said, context, {
    area: "group-remove", fields: {group, members: [one.member]}, what: `the removal of a member of group ${group}`, title: "Remove this member?", yes: "Remove it", no: "Keep it",
    text: `Member ${one.member} of group ${group} loses its partitions to the others. If its process still runs, it joins again.`})}, "Remove …");
}
