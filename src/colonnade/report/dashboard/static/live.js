"use strict";
// Says when what is shown is no longer what is: the figures stay on screen after the program behind them has gone.
document.addEventListener("DOMContentLoaded", () => {
  const banner = document.getElementById("stale");
  const since = document.getElementById("stale-since");
  let last = new Date();
  const stale = () => { since.textContent = last.toLocaleTimeString(); banner.hidden = false; };
  document.body.addEventListener("htmx:sendError", stale);
  document.body.addEventListener("htmx:timeout", stale);
  document.body.addEventListener("htmx:responseError", stale);
  document.body.addEventListener("htmx:afterOnLoad", () => { last = new Date(); banner.hidden = true; });
});
