import {current} from "./api.js";
import {h} from "./dom.js";

export const LOG = Symbol("the log that is shown");
const quoted = (word) => /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'"'"'`)}'`;

// A command as it is typed into a shell. The clipboard is there on an address that the browser trusts: https, or this machine.
export function typed(text) {
  return [h("code", {}, text), navigator.clipboard
    ? h("button", {type: "button", class: "copy", "data-key": `copy ${text}`, "aria-label": `Copy ${text}`, onclick: async (event) => {
      const button = event.currentTarget;
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    }}, "Copy") : null];
}

export const command = (...words) =>
  typed(["eoslog", ...words.map((word) => quoted(word === LOG ? current.session.logs[current.log].url : word))].join(" "));
